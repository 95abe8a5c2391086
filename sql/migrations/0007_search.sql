-- Finding timers: by state, tenant, name, due date and process instance, a page at a time.
--
-- On a table of many millions, make these indexes with `concurrently` before: they are then taken as they are.

create index if not exists timers_by_tenant on shardclock.timers (tenant_id, due_date, timer_key)
-- Whoever has no use for tenants does not pay for them: a third of a bulk insert, 105 bytes of WAL a timer.
where tenant_id <> 'default';
create index if not exists timers_by_process_instance on shardclock.timers (process_instance_key)
where process_instance_key is not null;
-- As timers_by_name, and good for prefixes too, whatever the collation.
create unique index if not exists timers_by_name_prefix on shardclock.timers (tenant_id, name text_pattern_ops)
where name is not null;
drop index shardclock.timers_by_name;

-- With few samples the planner takes any prefix for a rare one, or for a common one.
alter table shardclock.timers alter column name set statistics 1000;

create type shardclock.found_timer as (
    timer_key bigint,
    state text,
    tenant_id text,
    name text,
    timer_type text,
    process_instance_key bigint,
    element_instance_key bigint,
    target_element_id text,
    due_date timestamptz,
    created_at timestamptz,
    schedule text,
    zone text,
    missed text,
    occurrence bigint,
    target text,
    payload jsonb,
    ended_at timestamptz,
    holder bigint,
    detail jsonb,
    page text
);

-- A text that is executed is planned for its very values: an absent filter costs nothing.
create function shardclock.find_timers(
    state text default 'PENDING',
    tenant_id text default null,
    name_prefix text default null,
    due_from timestamptz default null,
    due_before timestamptz default null,
    process_instance_key bigint default null,
    page text default null,
    page_size integer default 1000
)
returns setof shardclock.found_timer
language plpgsql
stable
-- A page holds a due date as text, which must read back the same.
set datestyle = 'ISO'
set timezone = 'UTC'
as $$
begin
    if state is null or state not in ('PENDING', 'PAUSED', 'TRIGGERED', 'CANCELED', 'SKIPPED', 'ENDED') then
        raise exception 'state "%" is unknown: use PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED', left(state, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if page_size is null or page_size not between 1 and 10000 then
        raise exception 'page_size % is not possible: use 1 to 10000', page_size using errcode = 'invalid_parameter_value';
    end if;
    if name_prefix is not null and tenant_id is null then
        raise exception 'name_prefix "%" needs a tenant_id: names are a tenant''s own', left(name_prefix, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if page is not null and page !~ (
        case when state in ('PENDING', 'PAUSED') then '^[^/]{10,40}/[0-9]{1,18}$' else '^[0-9]{1,18}/[0-9]{1,18}$' end
    ) then
        raise exception 'page "%" is not one that a search for % gave', left(page, 60), state
            using errcode = 'invalid_parameter_value';
    end if;

    if state not in ('PENDING', 'PAUSED') then
        return query execute $ended$
            select
                l.timer_key, l.intent, l.tenant_id, l.name, l.timer_type, l.process_instance_key,
                l.element_instance_key, l.target_element_id, l.due_date, l.created_at, l.schedule, null::text,
                null::text, l.occurrence, l.target, l.payload, l.recorded_at, l.holder, l.detail,
                l.xid || '/' || l.position
            from shardclock.command_log l
            where (l.xid, l.position) < (split_part($7, '/', 1)::xid8, split_part($7, '/', 2)::bigint)
                and (l.intent in ('TRIGGERED', 'CANCELED') or (l.intent = 'SKIPPED' and l.detail ->> 'policy' = 'skip'))
                and ($1 = 'ENDED' or l.intent = $1)
                and ($2::text is null or l.tenant_id = $2)
                and ($3::text is null or l.name ^@ $3)
                and ($4::timestamptz is null or l.due_date >= $4)
                and ($5::timestamptz is null or l.due_date < $5)
                and ($6::bigint is null or l.process_instance_key = $6)
            order by l.xid desc, l.position desc
            limit $8
        $ended$
        using state, tenant_id, name_prefix, due_from, due_before, process_instance_key,
            coalesce(page, '9223372036854775807/9223372036854775807'), page_size;
    elsif tenant_id <> 'default' or process_instance_key is not null or name_prefix is not null then
        return query execute $pending$
            select
                t.timer_key, $1, t.tenant_id, t.name, t.timer_type, t.process_instance_key, t.element_instance_key,
                t.target_element_id, coalesce(t.paused_due_date, t.due_date), t.created_at, t.schedule, t.zone, t.missed,
                t.occurrence, t.target, t.payload, null::timestamptz, t.claimed_by, null::jsonb,
                t.due_date || '/' || t.timer_key
            from shardclock.timers t
            where ($2::text is null or t.tenant_id = $2)
                and ($6::bigint is null or t.process_instance_key = $6)
                and (t.due_date, t.timer_key) > (split_part($7, '/', 1)::timestamptz, split_part($7, '/', 2)::bigint)
                and ($1 = 'PAUSED') = (t.paused_due_date is not null)
                and ($1 = 'PENDING' or t.due_date = '9999-12-31 23:59:59.999998+00')
                and ($1 = 'PAUSED' or t.due_date < '9999-12-31 23:59:59.999998+00')
                and ($3::text is null or t.name ^@ $3)
                and ($4::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= $4)
                and ($1 = 'PAUSED' or $4::timestamptz is null or t.due_date >= $4)
                and ($5::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < $5)
                and ($1 = 'PAUSED' or $5::timestamptz is null or t.due_date < $5)
            order by t.due_date, t.timer_key
            limit $8
        $pending$
        using state, tenant_id, name_prefix, due_from, due_before, process_instance_key,
            coalesce(page, '-infinity/0'), page_size;
    else
        -- The soonest of each slot, so that a million pending ones need no sort.
        return query execute $all$
            select
                t.timer_key, $1, t.tenant_id, t.name, t.timer_type, t.process_instance_key, t.element_instance_key,
                t.target_element_id, coalesce(t.paused_due_date, t.due_date), t.created_at, t.schedule, t.zone, t.missed,
                t.occurrence, t.target, t.payload, null::timestamptz, t.claimed_by, null::jsonb,
                t.due_date || '/' || t.timer_key
            from generate_series(0, 839) as s (slot)
            cross join lateral (
                select t.*
                from shardclock.timers t
                where t.slot = s.slot
                    and ($6::text is null or t.tenant_id = $6)
                    and (t.due_date, t.timer_key) > (split_part($4, '/', 1)::timestamptz, split_part($4, '/', 2)::bigint)
                    and t.due_date >= split_part($4, '/', 1)::timestamptz
                    and ($1 = 'PAUSED') = (t.paused_due_date is not null)
                    and ($1 = 'PENDING' or t.due_date = '9999-12-31 23:59:59.999998+00')
                    and ($1 = 'PAUSED' or t.due_date < '9999-12-31 23:59:59.999998+00')
                    and ($2::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= $2)
                    and ($1 = 'PAUSED' or $2::timestamptz is null or t.due_date >= $2)
                    and ($3::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < $3)
                    and ($1 = 'PAUSED' or $3::timestamptz is null or t.due_date < $3)
                order by t.due_date, t.timer_key
                limit $5
            ) t
            order by t.due_date, t.timer_key
            limit $5
        $all$
        using state, due_from, due_before, coalesce(page, '-infinity/0'), page_size, tenant_id;
    end if;
end
$$;

-- For whoever wants to change them all: keys only, in their own order, which no change of a timer moves.
create function shardclock.find_keys(
    state text default 'PENDING',
    tenant_id text default null,
    name_prefix text default null,
    due_from timestamptz default null,
    due_before timestamptz default null,
    process_instance_key bigint default null,
    after_key bigint default 0,
    page_size integer default null
)
returns setof bigint
language plpgsql
stable
as $$
begin
    if state is null or state not in ('PENDING', 'PAUSED') then
        raise exception 'state "%" is unknown here: use PENDING or PAUSED', left(state, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    return query execute $keys$
        select t.timer_key
        from shardclock.timers t
        where t.timer_key > $7
            and ($2::text is null or t.tenant_id = $2)
            and ($3::text is null or t.name ^@ $3)
            and ($6::bigint is null or t.process_instance_key = $6)
            and ($1 = 'PAUSED') = (t.paused_due_date is not null)
            and ($1 = 'PENDING' or t.due_date = '9999-12-31 23:59:59.999998+00')
            and ($4::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= $4)
            and ($1 = 'PAUSED' or $4::timestamptz is null or t.due_date >= $4)
            and ($5::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < $5)
            and ($1 = 'PAUSED' or $5::timestamptz is null or t.due_date < $5)
        order by t.timer_key
        limit $8
    $keys$
    using state, tenant_id, name_prefix, due_from, due_before, process_instance_key, after_key, page_size;
end
$$;

comment on function shardclock.find_keys is
    'Finds the keys of timers that are PENDING or PAUSED, in the keys'' order; the last one found is the next page''s after_key.';
comment on function shardclock.find_timers is
    'Finds timers: PENDING soonest first, PAUSED by key, ended ones newest first. The `page` of the last row gives the next page.';
