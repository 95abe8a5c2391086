-- Finds a timer of the tenant. If several timers have the name: the pending timer, otherwise the timer that ended last.
--
-- in:    :asked text, a JSON object of tenant_id, and timer_key or name
-- out:   answer text, a JSON object of the timer's fields; no row: the tenant has no timer with this key or name
-- locks: nothing
-- index: timers_pkey or timers_by_name_prefix, command_log_by_timer_key or command_log_by_name
select json_build_object(
    'timer_key', h.timer_key,
    'state', h.state,
    'tenant_id', h.tenant_id,
    'name', h.name,
    'due_date', (to_json(h.due_date at time zone 'UTC') #>> '{}') || 'Z',
    'schedule', h.schedule,
    'zone', h.zone,
    'missed', case when h.schedule is not null then h.missed end,
    'occurrence', h.occurrence,
    'target', h.target,
    'payload', h.payload,
    'timer_type', h.timer_type,
    'process_instance_key', h.process_instance_key,
    'element_instance_key', h.element_instance_key,
    'target_element_id', h.target_element_id,
    'created_at', (to_json(h.created_at at time zone 'UTC') #>> '{}') || 'Z',
    'changed_at', (to_json(h.changed_at at time zone 'UTC') #>> '{}') || 'Z',
    'resume_at', (to_json(h.resume_at at time zone 'UTC') #>> '{}') || 'Z',
    'ended_at', (to_json(h.ended_at at time zone 'UTC') #>> '{}') || 'Z',
    'detail', h.detail
)::text as answer
from (select cast(:asked as text)::jsonb as asked) a
join shardclock.timer_history h
    on h.tenant_id = a.asked ->> 'tenant_id'
    and (h.timer_key = (a.asked ->> 'timer_key')::bigint or h.name = a.asked ->> 'name')
order by h.ended_at desc nulls first
limit 1
