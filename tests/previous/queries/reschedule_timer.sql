-- Moves a pending timer: to another due date, by a delay from now, by a shift, or to another rule.
--
-- in:    $1 timer_key bigint or null, $2 name text or null, $3 tenant_id text, then one of, the others null:
--        $4 due_date timestamptz, $5 delay text, $6 shift text, $7 schedule text with $8 zone text and $9 missed text
-- out:   state text: RESCHEDULED, TRIGGERED, CANCELED, SKIPPED or UNKNOWN
-- locks: the timer's row
-- index: timers_pkey or timers_by_name_prefix
select shardclock.reschedule_timer(
    timer_key => $1, name => $2, tenant_id => $3, due_date => $4, delay => $5, shift => $6, schedule => $7,
    zone => $8, missed => $9
) as state
