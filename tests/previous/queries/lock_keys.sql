-- Waits until no other attempt to write the same timers is under way, and keeps later ones waiting.
--
-- in:    $1 first_key bigint, the batch's first timer_key
-- out:   nothing of use
-- locks: an advisory lock, until the transaction ends
-- index: none
select pg_advisory_xact_lock($1)
