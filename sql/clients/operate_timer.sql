-- Changes a timer of a job or a process, for an operator.
--
-- in:    :verb text: pause, resume or reschedule; :timer_key bigint or null, :name text or null, :tenant_id text; for
--        reschedule one of these, else nulls: :due_date timestamptz, :delay text, :shift text; :reason text or null
-- out:   state text: PAUSED, PENDING, RESCHEDULED, TRIGGERED, CANCELED, SKIPPED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix
select shardclock.operate_timer(
    verb => :verb, timer_key => :timer_key, name => :name, tenant_id => :tenant_id, due_date => :due_date,
    delay => :delay, shift => :shift, reason => :reason
) as state
