-- Schedules many timers under keys drawn before; sent again, it adds nothing.
--
-- in:    one array for each column: $1 timer_keys bigint[], $2 due_dates timestamptz[],
--        $3 delays text[] (ISO 8601, counted from now on the zone's calendar, where there is no due date),
--        $4 schedules text[], $5 anchors timestamptz[], $6 anchor_occurrences bigint[], $7 repetitions integer[],
--        $8 missed text[], $9 names text[], $10 tenant_ids text[], $11 payloads jsonb[], $12 targets text[],
--        $13 timer_types text[], $14 target_element_ids text[], $15 process_instance_keys bigint[],
--        $16 element_instance_keys bigint[], $17 zones text[]
-- out:   timer_key bigint, due_date timestamptz of the timers that this call added
-- locks: the new rows
-- index: timers_pkey, timers_by_name_prefix and command_log_by_timer_key, a probe a timer
insert into shardclock.timers (
    timer_key, due_date, anchor, anchor_occurrence, repetitions, missed, name, schedule, tenant_id, payload, target,
    timer_type, target_element_id, process_instance_key, element_instance_key, zone
)
select
    s.timer_key,
    coalesce(s.due_date, shardclock.later(now(), s.delay::interval, s.zone)),
    s.anchor, s.anchor_occurrence, s.repetitions,
    -- What only a schedule needs, a plain timer has not.
    case when s.schedule is not null then s.missed end,
    -- A schedule outlives its first timer_key; its name is how to cancel it later.
    coalesce(s.name, case when s.schedule is not null then 'schedule-' || s.timer_key end),
    s.schedule, s.tenant_id, s.payload, s.target, s.timer_type,
    s.target_element_id, s.process_instance_key, s.element_instance_key,
    case when s.schedule is null then nullif(s.zone, 'UTC') else s.zone end
from unnest(
    $1::bigint[], $2::timestamptz[], $3::text[], $4::text[], $5::timestamptz[], $6::bigint[], $7::integer[], $8::text[],
    $9::text[], $10::text[], $11::jsonb[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::bigint[], $17::text[]
) as s (
    timer_key, due_date, delay, schedule, anchor, anchor_occurrence, repetitions, missed, name, tenant_id, payload,
    target, timer_type, target_element_id, process_instance_key, element_instance_key, zone
)
-- An earlier attempt may have come through, and its timers may have fired since.
where not exists (select from shardclock.command_log l where l.timer_key = s.timer_key)
on conflict do nothing
returning timer_key, due_date
