"""The audit log: one record for each act of an operator."""
