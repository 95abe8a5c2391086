"""The audit: what operators did, one record for each verb."""
