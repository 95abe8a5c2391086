-- Schedules a timer unless its name is in use, and returns the outcome.
--
-- in:    due_date timestamptz, delay text, schedule text, name text, tenant_id text, payload jsonb, target text,
--        timer_type text, target_element_id text, process_instance_key bigint, element_instance_key bigint, zone text,
--        missed text, on_conflict text
-- out:   shardclock.ensured_timer
-- locks: the new row; a timer that it replaces
-- index: timers_pkey, timers_by_name_prefix
create or replace function shardclock.ensure_timer(
    due_date timestamptz default null,
    delay text default null,
    schedule text default null,
    name text default null,
    tenant_id text default 'default',
    payload jsonb default null,
    target text default 'log',
    timer_type text default 'USER',
    target_element_id text default null,
    process_instance_key bigint default null,
    element_instance_key bigint default null,
    zone text default 'UTC',
    missed text default 'fire_once',
    on_conflict text default 'ignore'
)
returns shardclock.ensured_timer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    return shardclock.write_timer(
        shardclock.new_timer(
            due_date, delay, schedule, name, tenant_id, payload, target, timer_type, target_element_id,
            process_instance_key, element_instance_key, zone, missed
        ),
        on_conflict, redraws => true
    );
end
$$;

comment on function shardclock.ensure_timer is $$Schedules a timer as schedule_timer does, and returns the outcome. By default, a pending timer of the same name does not change.

as: schedule_timer
returns: one row: timer_key and due_date of the timer that now has the name, and the outcome: created, replaced (the new timer has replaced another timer, which was cancelled) or unchanged (the timer existed before)
example: select timer_key, due_date, outcome from shardclock.ensure_timer(schedule => 'R/P1D', name => 'nightly');
$$;
