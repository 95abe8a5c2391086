"""Deliveries: what fired and has a target to call. Workers claim them, and settle how each attempt ended."""
