-- Counts pending or paused timers, up to a limit.
--
-- The count reads the rows in any order. So with a limit it reads hardly more rows than the limit.
--
-- in:    state text, tenant_id text, name_prefix text, due_from timestamptz, due_before timestamptz,
--        process_instance_key bigint, timers_max bigint, target text, name_contains text, only_schedules boolean,
--        changed_from timestamptz, changed_before timestamptz, timer_keys bigint[]
-- out:   of_clients bigint, of_system bigint
-- locks: nothing
-- index: the index of the filter that leaves the fewest rows
create or replace function shardclock.count_timers(
    state text default 'PENDING',
    tenant_id text default null,
    name_prefix text default null,
    due_from timestamptz default null,
    due_before timestamptz default null,
    process_instance_key bigint default null,
    timers_max bigint default null,
    target text default null,
    name_contains text default null,
    only_schedules boolean default false,
    changed_from timestamptz default null,
    changed_before timestamptz default null,
    timer_keys bigint[] default null
)
returns table (of_clients bigint, of_system bigint)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return query execute format(
        $count$
            select
                count(*) filter (where shardclock.is_of_system(m.target) is not true),
                count(*) filter (where shardclock.is_of_system(m.target))
            from (select t.target %s limit $13) m
        $count$,
        shardclock.filtered_timers(state)
    )
    using state, tenant_id, name_prefix, due_from, due_before, process_instance_key, target, name_contains,
        only_schedules, changed_from, changed_before, timer_keys, timers_max;
end
$$;

comment on function shardclock.count_timers is $$Counts pending or paused timers, up to a limit.

as: find_keys
state: PENDING or PAUSED
timers_max: the counting stops at this number of timers; if both counts together reach it, there may be more; null: no limit
returns: one row: of_clients, the number of timers that clients can change, and of_system, the number of timers of jobs and processes
errors: 22023 for another state
example: select of_clients from shardclock.count_timers(tenant_id => 'acme', due_before => '2031-01-01T00:00:00Z', timers_max => 100000);
$$;
