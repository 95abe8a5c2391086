"""Prove what the HTTP API answers, on real Postgres and over real sockets; no cluster runs."""
