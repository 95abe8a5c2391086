"""What tenants of the HTTP API may have, and what they have."""
