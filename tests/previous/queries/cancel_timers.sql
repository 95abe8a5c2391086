-- Cancels those of many timers that are pending or paused.
--
-- in:    $1 timer_keys bigint[], $2 reason text or null
-- out:   timer_key bigint of those that it changed
-- locks: the timers' rows
-- index: timers_pkey, a probe a key
select k.timer_key from shardclock.cancel_timers($1, $2) as k (timer_key)
