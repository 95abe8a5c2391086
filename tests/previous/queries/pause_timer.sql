-- Keeps a pending timer from firing until it is resumed.
--
-- in:    $1 timer_key bigint or null, $2 name text or null, $3 tenant_id text, $4 reason text or null
-- out:   state text: PAUSED, TRIGGERED, CANCELED, SKIPPED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix
select shardclock.pause_timer(timer_key => $1, name => $2, tenant_id => $3, reason => $4) as state
