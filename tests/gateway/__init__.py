"""Test the responses of the HTTP API, on real Postgres and over real sockets, without a cluster."""
