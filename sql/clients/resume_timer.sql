-- Lets a paused timer go on.
--
-- in:    :timer_key bigint or null, :name text or null, :tenant_id text
-- out:   state text: PENDING, TRIGGERED, CANCELED, SKIPPED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix
select shardclock.resume_timer(timer_key => :timer_key, name => :name, tenant_id => :tenant_id) as state
