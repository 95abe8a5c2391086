-- Draws timer_keys before the timers exist, so that a write whose outcome is unknown can be asked about.
--
-- in:    $1 count integer
-- out:   timer_key bigint, `count` of them, ascending; drawn_at timestamptz, the moment that schedules are planned from
-- locks: nothing
-- index: none
select nextval('shardclock.timer_key_seq') as timer_key, now() as drawn_at
from generate_series(1, $1)
