"""Bulk operations: their progress, and the pages of keys that are still to change."""
