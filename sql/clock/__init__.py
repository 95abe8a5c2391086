"""A clock that a test moves: set it, and find the next due row."""
