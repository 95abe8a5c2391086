-- Serializes the attempts to write the same timers, by a lock that only one attempt can hold at a time.
--
-- in:    :first_key bigint, the batch's first timer_key
-- out:   nothing
-- locks: an advisory lock, until the transaction ends
-- index: none
select pg_advisory_xact_lock(:first_key)
