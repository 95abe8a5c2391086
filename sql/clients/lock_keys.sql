-- Waits until no other attempt to write the same timers is running, and makes later attempts wait.
--
-- in:    :first_key bigint, the batch's first timer_key
-- out:   nothing
-- locks: an advisory lock, until the transaction ends
-- index: none
select pg_advisory_xact_lock(:first_key)
