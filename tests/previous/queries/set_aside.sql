-- Pauses a leased timer that can't be fired, with the reason in the log, until somebody has seen to it.
--
-- in:    $1 holder bigint, $2 timer_key bigint, $3 why text
-- out:   timer_key bigint, or no row: it is no longer this holder's
-- locks: the timer's row
-- index: timers_pkey
with aside as (
    update shardclock.timers t
    set paused_due_date = t.due_date, due_date = '9999-12-31 23:59:59.999998+00',
        claimed_by = null, claimed_until = null
    where t.timer_key = $2 and t.claimed_by = $1
    returning t.*
)
insert into shardclock.command_log (
    timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
    intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
)
select
    a.timer_key, a.process_instance_key, a.element_instance_key, a.paused_due_date, a.created_at, a.occurrence, $1,
    'PAUSED', a.tenant_id, a.timer_type, a.target, a.target_element_id, a.name, a.schedule, a.payload,
    jsonb_build_object('refused', $3::text)
from aside a
returning timer_key
