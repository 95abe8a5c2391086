-- Schedules many timers with keys that were drawn earlier; a repeated call adds no timer twice.
--
-- in:    one array for each column; an array is empty if no timer has a value in the column:
--        :timer_keys bigint[], :due_dates timestamptz[]
--        :delays text[]: ISO 8601, from now, on the zone's calendar; for timers without a due date
--        :schedules text[], :anchors timestamptz[], :anchor_occurrences bigint[], :repetitions integer[], :missed
--          text[], :names text[], :tenant_ids text[], :payloads jsonb[], :targets text[], :timer_types text[],
--          :target_element_ids text[], :process_instance_keys bigint[], :element_instance_keys bigint[]
--        :zones text[]
--        :drawn_at timestamptz: the moment when the keys were drawn, for all timers
-- out:   timer_key bigint, due_date timestamptz: a row for each timer that this call added
-- locks: the new rows
-- index: timers_pkey and timers_by_name_prefix, one probe for each timer; command_log_by_timer_key, one range for all
--        timers
with drawn as materialized (
    select min(k.timer_key) as first, max(k.timer_key) as last from unnest(:timer_keys::bigint[]) as k (timer_key)
),
logged as materialized (
    -- The keys of one draw are close together, so one range scan of each partition of the log finds all of them. One
    -- probe for each key in each of 30 partitions would take longer than the rest of the statement.
    select l.timer_key
    from drawn d
    cross join lateral (
        select l.timer_key from shardclock.logged_keys l where l.timer_key between d.first and d.last
    ) l
    where d.last - d.first < 100000
    union all
    -- The keys are far apart only if another session advanced the sequence while they were drawn.
    select l.timer_key
    from drawn d
    cross join unnest(:timer_keys) as k (timer_key)
    join shardclock.logged_keys l on l.timer_key = k.timer_key
    where d.last - d.first >= 100000
)
insert into shardclock.timers (
    timer_key, created_at, due_date, anchor, anchor_occurrence, repetitions, missed, name, schedule, tenant_id, payload,
    target, timer_type, target_element_id, process_instance_key, element_instance_key, zone
)
select
    s.timer_key,
    -- A pending timer with the same key and created_at was written by an earlier attempt.
    :drawn_at::timestamptz,
    coalesce(s.due_date, shardclock.later(now(), s.delay::interval, s.zone)),
    s.anchor, coalesce(s.anchor_occurrence, 0), coalesce(s.repetitions, 1),
    -- The columns of schedules are null in a plain timer.
    case when s.schedule is not null then s.missed end,
    -- A client needs a name to cancel a schedule, because the schedule's timer_key changes at each firing.
    coalesce(s.name, case when s.schedule is not null then 'schedule-' || s.timer_key end),
    s.schedule, s.tenant_id, s.payload,
    case when shardclock.reserved('target', s.target) is null then s.target else shardclock.target_of_client(s.target)
    end, s.timer_type,
    s.target_element_id, s.process_instance_key, s.element_instance_key,
    case when s.schedule is null then nullif(s.zone, 'UTC') else s.zone end
from unnest(
    :timer_keys::bigint[], :due_dates::timestamptz[], :delays::text[], :schedules::text[], :anchors::timestamptz[],
    :anchor_occurrences::bigint[], :repetitions::integer[], :missed::text[], :names::text[], :tenant_ids::text[],
    :payloads::jsonb[], :targets::text[], :timer_types::text[], :target_element_ids::text[],
    :process_instance_keys::bigint[], :element_instance_keys::bigint[], :zones::text[]
) with ordinality as s (
    timer_key, due_date, delay, schedule, anchor, anchor_occurrence, repetitions, missed, name, tenant_id, payload,
    target, timer_type, target_element_id, process_instance_key, element_instance_key, zone, number
)
-- An earlier attempt may have written the timers, and the timers may have fired since that attempt.
where not exists (select from logged l where l.timer_key = s.timer_key)
-- If two timers of the batch have the same name, only the first of them is written. The order by name prevents
-- deadlocks between batches that contain the same names.
order by s.tenant_id collate "C", s.name collate "C", s.number
on conflict do nothing
returning timer_key, due_date
