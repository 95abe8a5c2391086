"""Idempotent requests: the stored responses of the HTTP API, for requests that are sent again."""
