-- Schedules many timers under keys drawn before; sent again, it adds nothing.
--
-- in:    one array for each column: $1 timer_keys bigint[], $2 due_dates timestamptz[],
--        $3 waits text[] (an ISO 8601 delay or period, counted from now, where there is no due date),
--        $4 schedules text[], $5 repetitions integer[], $6 names text[], $7 tenant_ids text[], $8 payloads jsonb[],
--        $9 targets text[], $10 timer_types text[], $11 target_element_ids text[],
--        $12 process_instance_keys bigint[], $13 element_instance_keys bigint[], $14 zones text[]
-- out:   timer_key bigint, due_date timestamptz of the timers that this call added
-- locks: the new rows
-- index: timers_pkey, timers_by_name and command_log_by_timer_key, a probe a timer
insert into shardclock.timers (
    timer_key, due_date, anchor, repetitions, name, schedule, tenant_id, payload, target, timer_type,
    target_element_id, process_instance_key, element_instance_key, zone
)
select
    s.timer_key,
    coalesce(s.due_date, (now() at time zone 'UTC' + s.wait::interval) at time zone 'UTC'),
    case when s.schedule is not null then now() end,
    s.repetitions,
    -- A schedule outlives its first timer_key; its name is how to cancel it later.
    coalesce(s.name, case when s.schedule is not null then 'schedule-' || s.timer_key end),
    s.schedule, s.tenant_id, s.payload, s.target, s.timer_type,
    s.target_element_id, s.process_instance_key, s.element_instance_key, s.zone
from unnest(
    $1::bigint[], $2::timestamptz[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::jsonb[],
    $9::text[], $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::text[]
) as s (
    timer_key, due_date, wait, schedule, repetitions, name, tenant_id, payload,
    target, timer_type, target_element_id, process_instance_key, element_instance_key, zone
)
-- An earlier attempt may have come through, and its timers may have fired since.
where not exists (select from shardclock.command_log l where l.timer_key = s.timer_key)
on conflict do nothing
returning timer_key, due_date
