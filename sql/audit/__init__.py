"""The audit: one record for each verb of an operator."""
