-- Moves a pending timer to another due date.
--
-- in:    $1 timer_key bigint or null, $2 name text or null, $3 tenant_id text,
--        $4 due_date timestamptz or null, $5 delay text or null
-- out:   state text: RESCHEDULED, TRIGGERED, CANCELED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name
select shardclock.reschedule_timer(
    timer_key => $1, name => $2, tenant_id => $3, due_date => $4, delay => $5
) as state
