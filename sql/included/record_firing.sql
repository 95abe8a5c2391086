-- Writes the records of the timers in `firing`, and of the occurrences that the schedules in `recurring` skip.
insert into shardclock.command_log (
    timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
    intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
)
select
    f.timer_key, f.process_instance_key, f.element_instance_key, f.due_date, f.created_at, f.occurrence, :holder,
    'TRIGGERED', f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule, f.payload,
    case when f.changed_at is not null then jsonb_build_object('changed_at', f.changed_at) end
from (select f.* from firing f order by f.due_date) f
union all
select
    r.timer_key, r.process_instance_key, r.element_instance_key, r.due_date, r.created_at,
    r.occurrence + case when r.fires then 1 else 0 end, :holder,
    'SKIPPED', r.tenant_id, r.timer_type, r.target, r.target_element_id, r.name, r.schedule, r.payload,
    jsonb_build_object(
        'count', r.skipped,
        'policy', coalesce(case when r.due_date < r.changed_at then r.missed_once end, r.missed, 'fire_once')
    )
from recurring r
where r.skipped > 0
