-- Writes timers with names. If a pending timer has the name already, on_conflict decides: ignore the new timer, or
-- replace the pending timer.
--
-- in:    as schedule_timers, also with empty arrays:
--        :timer_keys bigint[], :due_dates timestamptz[], :delays text[], :schedules text[], :anchors timestamptz[],
--          :anchor_occurrences bigint[], :repetitions integer[], :missed text[], :names text[], :tenant_ids text[],
--          :payloads jsonb[], :targets text[], :timer_types text[], :target_element_ids text[], :process_instance_keys
--          bigint[], :element_instance_keys bigint[], :zones text[]
--        :drawn_at timestamptz
--        :on_conflicts text[]: ignore or replace
-- out:   asked bigint: the key in the call
--        timer_key bigint
--        due_date timestamptz and outcome text: created, replaced or unchanged
--        the last three columns describe the timer that has the name now; they are null if the asked key belongs to
--          another timer
-- locks: the new and the replaced rows, in the order of names, so that two batches don't deadlock
-- index: timers_by_name_prefix and timers_pkey, one probe for each timer
select s.timer_key as asked, w.timer_key, w.due_date, w.outcome
from (
    select
        s.timer_key, s.on_conflict,
        jsonb_populate_record(
            null::shardclock.timers,
            jsonb_build_object(
                'timer_key', s.timer_key,
                'created_at', :drawn_at::timestamptz,
                'due_date', coalesce(s.due_date, shardclock.later(now(), s.delay::interval, s.zone)),
                'anchor', s.anchor,
                'anchor_occurrence', coalesce(s.anchor_occurrence, 0),
                'occurrence', 1,
                'repetitions', coalesce(s.repetitions, 1),
                'missed', case when s.schedule is not null then s.missed end,
                'name', s.name,
                'schedule', s.schedule,
                'tenant_id', s.tenant_id,
                'payload', s.payload,
                'target', s.target,
                'timer_type', s.timer_type,
                'target_element_id', s.target_element_id,
                'process_instance_key', s.process_instance_key,
                'element_instance_key', s.element_instance_key,
                'zone', case when s.schedule is null then nullif(s.zone, 'UTC') else s.zone end
            )
        ) as wanted
    from unnest(
        :timer_keys::bigint[], :due_dates::timestamptz[], :delays::text[], :schedules::text[], :anchors::timestamptz[],
        :anchor_occurrences::bigint[], :repetitions::integer[], :missed::text[], :names::text[], :tenant_ids::text[],
        :payloads::jsonb[], :targets::text[], :timer_types::text[], :target_element_ids::text[],
        :process_instance_keys::bigint[], :element_instance_keys::bigint[], :zones::text[], :on_conflicts::text[]
    ) with ordinality as s (
        timer_key, due_date, delay, schedule, anchor, anchor_occurrence, repetitions, missed, name, tenant_id, payload,
        target, timer_type, target_element_id, process_instance_key, element_instance_key, zone, on_conflict, number
    )
    order by s.tenant_id collate "C", s.name collate "C", s.number
    -- `offset 0` makes Postgres sort the rows before it calls write_timer for each row.
    offset 0
) s
cross join lateral shardclock.write_timer(s.wanted, s.on_conflict, redraws => false) w
