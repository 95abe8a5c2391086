"""A clock that a test moves: what it is set to, and what is due next by it."""
