-- Keeps others from making, rotating or revoking API keys meanwhile; who only reads them waits for nobody.
--
-- in:    nothing
-- out:   nothing
-- locks: the table against writers, until the transaction ends
-- index: none
lock table shardclock.api_keys in share row exclusive mode
