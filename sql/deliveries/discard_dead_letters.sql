-- Discards dead letters for good.
--
-- in:    :timer_keys bigint[], :reason text or null
-- out:   timer_key bigint, of those that were discarded
-- locks: the dead letters
-- index: dead_letters_pkey
select d.timer_key from shardclock.discard_dead_letters(:timer_keys::bigint[], :reason::text) as d (timer_key)
