-- Schedules the start timers of a definition, and subscribes its other start events.
--
-- in:    definition_key bigint, again boolean
-- out:   nothing
-- locks: the new rows
-- index: definitions_pkey
create or replace function shardclock.open_starts(definition_key bigint, again boolean default false)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    d shardclock.definitions;
begin
    select f.* into d from shardclock.definitions f where f.definition_key = open_starts.definition_key;
    insert into shardclock.timers (
        due_date, anchor, anchor_occurrence, repetitions, tenant_id, timer_type, target, target_element_id, zone, missed,
        name, schedule, payload
    )
    select
        -- A new schedule is due immediately, so that a shard claims the schedule and computes its first due date,
        -- without firing.
        coalesce((s.start ->> 'due_date')::timestamptz, now()),
        case when s.start ->> 'schedule' is not null then now() end,
        case when s.start ->> 'schedule' is null then 0 end,
        case when s.start ->> 'schedule' is null then 1 else -1 end,
        d.tenant_id, 'START_EVENT', 'process:instance', s.start ->> 'node_id',
        case when s.start ->> 'schedule' is not null then coalesce(s.start ->> 'zone', 'UTC') end,
        case when s.start ->> 'schedule' is not null then 'fire_once' end,
        'start:' || d.definition_key || ':' || s.number, s.start ->> 'schedule',
        jsonb_build_object('kind', 'begin', 'definition', d.definition_key)
    from jsonb_array_elements(d.starts) with ordinality as s (start, number)
    where s.start ->> 'kind' = 'timer'
        -- If the starts are opened again, a timer with a date in the past is not scheduled, because it has fired while
        -- this definition was the newest version.
        and (not again or s.start ->> 'schedule' is not null or (s.start ->> 'due_date')::timestamptz > now());
    insert into shardclock.subscriptions (definition_key, is_once, kind, tenant_id, name, process_id, node_id)
    select d.definition_key, false, s.start ->> 'kind', d.tenant_id, s.start ->> 'name', d.process_id, s.start ->> 'node_id'
    from jsonb_array_elements(d.starts) as s (start)
    where s.start ->> 'kind' <> 'timer';
end
$$;

comment on function shardclock.open_starts is
    'Internal: Schedules the start timers and subscribes the other start events of a definition.';
