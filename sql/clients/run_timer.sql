-- Makes a pending timer due now; if it is sent again with the same operation, the timer runs once.
--
-- in:    :timer_key bigint or null, :name text or null, :tenant_id text, :operation text or null: a name for this run
-- out:   state text: RESCHEDULED, PENDING (due already), PAUSED, TRIGGERED, CANCELED, SKIPPED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix; command_log_by_operation
select shardclock.run_timer(
    timer_key => :timer_key, name => :name, tenant_id => :tenant_id, operation => :operation
) as state
