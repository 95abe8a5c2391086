-- Writes the records of the timers in `firing`.
insert into shardclock.command_log (
    timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
    intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
)
select
    f.timer_key, f.process_instance_key, f.element_instance_key, f.due_date, f.created_at, f.occurrence, :holder,
    'TRIGGERED', f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule, f.payload,
    case when f.changed_at is not null then jsonb_build_object('changed_at', f.changed_at) end
from (select f.* from firing f order by f.due_date) f
