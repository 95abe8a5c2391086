-- Moves the pending and paused timers among these keys by a length; if it is sent again, it moves no timer twice.
--
-- in:    :timer_keys bigint[], :shift text, :operation text: a name for this move
-- out:   timer_key bigint of each timer that was moved
-- locks: the timers' rows
-- index: timers_pkey, one probe for each key
select k.timer_key from shardclock.shift_timers(:timer_keys, :shift, :operation) as k (timer_key)
