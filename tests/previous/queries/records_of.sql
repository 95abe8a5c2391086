-- Reads the last records of a timer, or of all the timers that bore a name.
--
-- in:    $1 timer_key bigint or null, $2 name text or null, $3 tenant_id text, $4 limit bigint
-- out:   the columns of read_log, the newest first
-- locks: nothing
-- index: command_log_by_timer_key or command_log_by_name
select
    l.xid::text as xid, l.position, l.recorded_at, l.intent, l.timer_key, l.tenant_id, l.name, l.timer_type,
    l.process_instance_key, l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule,
    l.occurrence, l.target, l.payload::text as payload, l.holder, l.detail::text as detail
from shardclock.command_log l
where l.timer_key = $1 or (l.tenant_id = $3 and l.name = $2)
order by l.recorded_at desc
limit $4
