-- Reads the last records of each of some timers.
--
-- in:    :timer_keys bigint[], :limit bigint: of one timer
-- out:   the columns of read_log, the newest of each timer first
-- locks: nothing
-- index: command_log_by_timer_key
select
    l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
    l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
    l.occurrence, l.target, l.payload, l.holder, l.detail
from unnest(:timer_keys::bigint[]) k (timer_key)
cross join lateral (
    select
        l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
        l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
        l.occurrence, l.target, l.payload::text as payload, l.holder, l.detail::text as detail
    from shardclock.command_log l
    where l.timer_key = k.timer_key
    order by l.recorded_at desc
    limit :limit
) l
