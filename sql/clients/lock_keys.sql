-- Takes a lock for an attempt to write timers: waits for other attempts to write the same timers, and makes later
-- attempts wait.
--
-- in:    :first_key bigint, the batch's first timer_key
-- out:   nothing
-- locks: an advisory lock, until the transaction ends
-- index: none
select pg_advisory_xact_lock(:first_key)
