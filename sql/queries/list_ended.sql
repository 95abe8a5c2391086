-- Lists the timers that ended last.
--
-- in:    $1 limit bigint, $2 tenant_id text or null, $3 state text or null: TRIGGERED, CANCELED
-- out:   the columns of find_timer, the newest first
-- locks: nothing
-- index: command_log_in_order, backwards
select
    l.timer_key, l.intent as state, l.tenant_id, l.name, l.timer_type, l.process_instance_key,
    l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule, l.occurrence, l.target,
    l.payload::text as payload, l.recorded_at as ended_at, l.holder, l.detail::text as detail
from shardclock.command_log l
where l.intent in ('TRIGGERED', 'CANCELED')
    and ($2::text is null or l.tenant_id = $2)
    and ($3::text is null or l.intent = $3)
order by l.xid desc, l.position desc
limit $1
