-- Finds a timer: pending, paused or ended. If several timers have the name, the result is the pending timer, or else
-- the timer that ended last.
--
-- in:    :timer_key bigint or null, :name text or null, :tenant_id text
-- out:   one row or none:
--        timer_key bigint, state text, tenant_id text, name text, timer_type text, process_instance_key bigint,
--          element_instance_key bigint, target_element_id text, due_date timestamptz, created_at timestamptz,
--          changed_at timestamptz, resume_at timestamptz, schedule text, zone text, missed text, occurrence bigint,
--          target text, payload text, ended_at timestamptz, holder bigint, detail text
-- locks: nothing
-- index: timers_pkey or timers_by_name_prefix, command_log_by_timer_key or command_log_by_name
select
    h.timer_key, h.state, h.tenant_id, h.name, h.timer_type, h.process_instance_key, h.element_instance_key,
    h.target_element_id, h.due_date, h.created_at, h.changed_at, h.resume_at, h.schedule, h.zone, h.missed, h.occurrence,
    h.target, h.payload::text as payload, h.ended_at, h.holder, h.detail::text as detail
from shardclock.timer_history h
where h.timer_key = :timer_key or (h.name = :name and h.tenant_id = :tenant_id)
order by h.ended_at desc nulls first
limit 1
