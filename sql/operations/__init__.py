"""Bulk operations: their progress, and the pages of keys of the rows that have not been changed yet."""
