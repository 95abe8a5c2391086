"""Idempotent requests: the stored answers of the HTTP API, for requests that are sent again."""
