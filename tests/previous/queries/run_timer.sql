-- Makes a pending timer due now.
--
-- in:    $1 timer_key bigint or null, $2 name text or null, $3 tenant_id text
-- out:   state text: RESCHEDULED, PENDING (due already), PAUSED, TRIGGERED, CANCELED, SKIPPED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix
select shardclock.run_timer(timer_key => $1, name => $2, tenant_id => $3) as state
