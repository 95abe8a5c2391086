"""The quotas of the HTTP API's tenants, and their usage."""
