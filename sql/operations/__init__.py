"""Bulk operations: their progress, and the pages of keys whose rows have not been changed yet."""
