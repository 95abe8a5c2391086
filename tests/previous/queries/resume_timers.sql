-- Resumes those of many timers that are paused.
--
-- in:    $1 timer_keys bigint[]
-- out:   timer_key bigint of those that it changed
-- locks: the timers' rows
-- index: timers_pkey, a probe a key
select k.timer_key from shardclock.resume_timers($1) as k (timer_key)
