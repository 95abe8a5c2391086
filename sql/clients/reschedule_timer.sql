-- Moves a pending or paused timer: to another due date, by a delay from now, by a shift, or to another rule.
--
-- in:    :timer_key bigint or null, :name text or null, :tenant_id text, then one of these, the others null:
--        :due_date timestamptz, :delay text, :shift text, :schedule text with :zone text and :missed text
-- out:   state text: RESCHEDULED, TRIGGERED, CANCELED, SKIPPED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix
select shardclock.reschedule_timer(
    timer_key => :timer_key, name => :name, tenant_id => :tenant_id, due_date => :due_date, delay => :delay,
    shift => :shift, schedule => :schedule, zone => :zone, missed => :missed
) as state
