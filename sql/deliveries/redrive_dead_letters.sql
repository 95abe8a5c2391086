-- Delivers dead letters again, from their first attempt on.
--
-- in:    :timer_keys bigint[], :per_s integer or null: how many become due in a second; null: all at once
-- out:   timer_key bigint, of those that are delivered again
-- locks: the dead letters
-- index: dead_letters_pkey
select r.timer_key from shardclock.redrive_dead_letters(:timer_keys::bigint[], :per_s::integer) as r (timer_key)
