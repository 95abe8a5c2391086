"""Bulk operations: their progress, and pages with the keys of the rows that are still to change."""
