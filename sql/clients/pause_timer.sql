-- Keeps a pending timer from firing until it is resumed.
--
-- in:    :timer_key bigint or null, :name text or null, :tenant_id text, :reason text or null
-- out:   state text: PAUSED, TRIGGERED, CANCELED, SKIPPED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix
select shardclock.pause_timer(
    timer_key => :timer_key, name => :name, tenant_id => :tenant_id, reason => :reason
) as state
