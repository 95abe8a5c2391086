"""API keys: by which the HTTP API knows its callers. Operators make and revoke them, and the gateway reads them."""
