"""Endpoints: the receivers of a tenant's webhooks. Operators and tenants change endpoints; workers read endpoints.

endpoints  the stored endpoints of tenants
attempts   the last calls of each endpoint, with the beginning of each response
"""
