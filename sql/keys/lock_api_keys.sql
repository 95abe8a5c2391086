-- Blocks other transactions that make, rotate or revoke API keys; does not block readers.
--
-- in:    nothing
-- out:   nothing
-- locks: the table against writers, until the transaction ends
-- index: none
lock table shardclock.api_keys in share row exclusive mode
