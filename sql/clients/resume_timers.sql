-- Resumes the paused timers among these keys.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint of each timer that was resumed
-- locks: the timers' rows
-- index: timers_pkey, one probe for each key
select k.timer_key from shardclock.resume_timers(:timer_keys) as k (timer_key)
