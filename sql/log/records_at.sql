-- Reads whole records by their keys, positions and times.
--
-- in:    one element of each array for each record:
--        :timer_keys bigint[], :positions bigint[], :recorded_at timestamptz[]
-- out:   position bigint, recorded_at timestamptz, intent text, timer_key bigint, tenant_id text, name text, timer_type
--          text, process_instance_key bigint, element_instance_key bigint, target_element_id text, due_date
--          timestamptz, created_at timestamptz, schedule text, occurrence bigint, target text, payload text, holder
--          bigint, detail text
--        in any order
-- locks: nothing
-- index: command_log_by_timer_key
select
    l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
    l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
    l.occurrence, l.target, l.payload, l.holder, l.detail
from unnest(:timer_keys::bigint[], :positions::bigint[], :recorded_at::timestamptz[])
    it (timer_key, position, recorded_at)
cross join lateral (
    select
        l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
        l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
        l.occurrence, l.target, l.payload::text as payload, l.holder, l.detail::text as detail
    from shardclock.command_log l
    where l.timer_key = it.timer_key and l.position = it.position and l.recorded_at = it.recorded_at
    limit 1
) l
