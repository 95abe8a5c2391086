-- Writes the deliveries of the timers in `firing`. A firing with the target log writes only a log record and no
-- delivery.
insert into shardclock.deliveries (
    timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
    tenant_id, timer_type, target, target_element_id, name, schedule, payload
)
select
    f.timer_key, f.process_instance_key, f.element_instance_key, coalesce(:now::timestamptz, now()), f.due_date,
    f.created_at, f.occurrence, f.slot, f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule,
    f.payload
from firing f
where f.target <> 'log'
