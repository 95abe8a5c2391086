"""Idempotent requests: what the HTTP API answered, for whoever sends the same request again."""
