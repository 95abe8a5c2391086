-- Returns the text of the query that find_keys and count_timers share.
--
-- Both functions execute the text, so that Postgres plans the query for the actual values.
--
-- in:    state text
-- out:   text: a query of shardclock.timers t, from `from` to the last condition; $1 to $12 are the state, tenant_id,
--        name_prefix, due_from, due_before, process_instance_key, target, name_contains, only_schedules, changed_from,
--        changed_before and timer_keys
-- locks: nothing
-- index: none
create or replace function shardclock.filtered_timers(state text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if state is null or state not in ('PENDING', 'PAUSED') then
        raise exception 'state % is unknown here: use PENDING or PAUSED', quote_literal(left(state, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_state';
    end if;
    return $query$
        from shardclock.timers t
        where ($2::text is null or t.tenant_id = $2)
            and ($3::text is null or t.name ^@ $3)
            and ($6::bigint is null or t.process_instance_key = $6)
            and ($7::text is null or t.target = $7)
            and ($1 = 'PAUSED') = (t.paused_due_date is not null)
            and ($1 = 'PENDING' or t.due_date = '9999-12-31 23:59:59.999998+00')
            and ($4::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= $4)
            and ($1 = 'PAUSED' or $4::timestamptz is null or t.due_date >= $4)
            and ($5::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < $5)
            and ($1 = 'PAUSED' or $5::timestamptz is null or t.due_date < $5)
            and ($8::text is null or position(lower($8) in lower(t.name)) > 0)
            and (not $9 or t.schedule is not null)
            and ($10::timestamptz is null or t.changed_at >= $10)
            and ($11::timestamptz is null or t.changed_at < $11)
            and ($12::bigint[] is null or t.timer_key = any ($12))
    $query$;
end
$$;

comment on function shardclock.filtered_timers is
    'Internal: Returns the query text that find_keys and count_timers have in common.';
