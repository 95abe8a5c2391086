-- Reads the records of a timer, or of all timers with one name, just before and just after a moment.
--
-- in:    :timer_key bigint or null, :name text or null, :tenant_id text, :moment timestamptz,
--        :limit bigint: the limit of records before the moment, and of records after the moment
-- out:   the columns of records_at, oldest first
-- locks: nothing
-- index: command_log_by_timer_key or command_log_by_name, from the moment backwards and forwards
with around as (
    (
        select l.*
        from shardclock.command_log l
        where (l.timer_key = :timer_key or (l.tenant_id = :tenant_id and l.name = :name)) and l.recorded_at <= :moment
        order by l.recorded_at desc
        limit :limit
    )
    union all
    (
        select l.*
        from shardclock.command_log l
        where (l.timer_key = :timer_key or (l.tenant_id = :tenant_id and l.name = :name)) and l.recorded_at > :moment
        order by l.recorded_at
        limit :limit
    )
)
select
    l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
    l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
    l.occurrence, l.target, l.payload::text as payload, l.holder, l.detail::text as detail
from around l
order by l.position
