-- Returns a page of keys of pending or paused timers, for a caller that changes all these timers.
--
-- The keys are sorted, and a change of a timer does not change its place in this order.
--
-- in:    state text, tenant_id text, name_prefix text, due_from timestamptz, due_before timestamptz,
--        process_instance_key bigint, after_key bigint, page_size integer, target text, name_contains text,
--        only_schedules boolean, changed_from timestamptz, changed_before timestamptz, timer_keys bigint[]
-- out:   setof bigint
-- locks: nothing
-- index: timers_pkey, or the index of the filter that leaves the fewest rows
create or replace function shardclock.find_keys(
    state text default 'PENDING',
    tenant_id text default null,
    name_prefix text default null,
    due_from timestamptz default null,
    due_before timestamptz default null,
    process_instance_key bigint default null,
    after_key bigint default 0,
    page_size integer default null,
    target text default null,
    name_contains text default null,
    only_schedules boolean default false,
    changed_from timestamptz default null,
    changed_before timestamptz default null,
    timer_keys bigint[] default null
)
returns setof bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if page_size < 0 then
        raise exception 'page_size % is refused: use 0 or more', page_size
            using errcode = 'invalid_parameter_value', constraint = 'invalid_page_size';
    end if;
    return query execute
        'select t.timer_key' || shardclock.filtered_timers(state) || 'and t.timer_key > $13 order by t.timer_key limit $14'
    using state, tenant_id, name_prefix, due_from, due_before, process_instance_key, target, name_contains,
        only_schedules, changed_from, changed_before, timer_keys, after_key, page_size;
end
$$;

comment on function shardclock.find_keys is $$Finds the keys of pending or paused timers, for a caller that changes all
these timers. The keys are in ascending order, which stays the same when timers change.

as: find_timers
state: PENDING or PAUSED
target: only timers with this target
name_contains: only timers with this text in their name, in upper or lower case
changed_from: only timers that a client changed at this moment or later; for paused timers, the time of the pause counts
changed_before: only timers that a client changed before this moment, as for changed_from
timer_keys: only timers with one of these keys
after_key: the last key of the previous page; 0: begin with the first
page_size: the limit of keys; null: no limit
returns: the keys
errors: 22023 for another state, and for a negative page_size
example: select shardclock.find_keys(tenant_id => 'acme', due_before => '2031-01-01T00:00:00Z', page_size => 1000);
$$;
