"""Endpoints: where a tenant's webhooks are sent. Operators and tenants change them, and workers read them."""
