-- Cancels the pending and paused timers among these keys.
--
-- in:    :timer_keys bigint[], :reason text or null
-- out:   timer_key bigint of each timer that was cancelled
-- locks: the timers' rows
-- index: timers_pkey, one probe for each key
select k.timer_key from shardclock.cancel_timers(:timer_keys, :reason) as k (timer_key)
