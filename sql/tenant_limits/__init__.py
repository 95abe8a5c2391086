"""The stored limits of the HTTP API's tenants, and the tenants' usage.

The functions in sql/functions/quotas/ and `gateway.limits` check new rows against the quotas.
"""
