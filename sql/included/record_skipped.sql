-- Adds the records of the occurrences that the schedules in `recurring` skip, after record_firing.sql.
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
