-- Returns a page of timers, past and present.
--
-- The function uses `execute`, so that Postgres plans each call for its actual values. A filter that is null costs
-- nothing.
--
-- in:    state text, tenant_id text, name text, name_prefix text, due_from timestamptz, due_before timestamptz,
--        process_instance_key bigint, page text, page_size integer, target text, only_schedules boolean, changed_from
--        timestamptz, changed_before timestamptz, order_by text
-- out:   setof shardclock.found_timer
-- locks: nothing
-- index: the index of the filter that leaves the fewest rows: timers_by_name_prefix, timers_by_process_instance,
--        timers_by_target, timers_by_tenant, timers_by_slot, timers_by_change, schedules_by_tenant (all schedules of
--        the tenant for each page); for ended timers command_log_in_order or command_log_by_name
create or replace function shardclock.find_timers(
    state text default 'PENDING',
    tenant_id text default null,
    name text default null,
    name_prefix text default null,
    due_from timestamptz default null,
    due_before timestamptz default null,
    process_instance_key bigint default null,
    page text default null,
    page_size integer default 1000,
    target text default null,
    only_schedules boolean default false,
    changed_from timestamptz default null,
    changed_before timestamptz default null,
    order_by text default null
)
returns setof shardclock.found_timer
language plpgsql
stable
-- A page token contains a due date as text. The next call must parse exactly the same moment from this text.
set datestyle = 'ISO'
set timezone = 'UTC'
set search_path = pg_catalog, pg_temp
as $$
begin
    if state is null or state not in ('PENDING', 'PAUSED', 'TRIGGERED', 'CANCELED', 'SKIPPED', 'ENDED') then
        raise exception 'state % is unknown: use PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED',
            quote_literal(left(state, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_state';
    end if;
    if page_size is null or page_size not between 1 and 10000 then
        raise exception 'page_size % is refused: use 1 to 10000', page_size
            using errcode = 'invalid_parameter_value', constraint = 'invalid_page_size';
    end if;
    if coalesce(name, name_prefix) is not null and tenant_id is null then
        raise exception '% % needs a tenant_id: each tenant has its own names',
            case when name is null then 'name_prefix' else 'name' end,
            quote_literal(left(coalesce(name, name_prefix), 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_tenant_id';
    end if;
    if order_by is not null and order_by <> all (
        case when state in ('PENDING', 'PAUSED') then array['due', 'change'] else array['change'] end
    ) then
        raise exception 'order_by % is refused: % timers come by %', quote_literal(left(order_by, 60)), state,
            case when state in ('PENDING', 'PAUSED') then 'due or change' else 'change' end
            using errcode = 'invalid_parameter_value', constraint = 'invalid_order_by';
    end if;
    if tenant_id is null and state in ('PENDING', 'PAUSED')
        and (order_by = 'change' or coalesce(changed_from, changed_before) is not null)
    then
        raise exception '% needs a tenant_id: the index of changes has one part for each tenant',
            case when order_by = 'change' then 'order_by ''change''' when changed_from is null then 'changed_before'
                else 'changed_from' end
            using errcode = 'invalid_parameter_value', constraint = 'invalid_tenant_id';
    end if;
    if page is not null and page !~ (
        case
            when state not in ('PENDING', 'PAUSED') then '^[0-9]{1,18}$'
            when order_by = 'change' then '^[^/]{10,40}/[0-9]{1,18}/change$'
            else '^[^/]{10,40}/[0-9]{1,18}$'
        end
    ) then
        raise exception 'page % is not from a search for % timers', quote_literal(left(page, 60)), state
            using errcode = 'invalid_parameter_value', constraint = 'invalid_page';
    end if;

    if state not in ('PENDING', 'PAUSED') then
        return query execute $ended$
            select
                l.timer_key, l.intent, l.tenant_id, l.name, l.timer_type, l.process_instance_key,
                l.element_instance_key, l.target_element_id, l.due_date, l.created_at, null::timestamptz,
                null::timestamptz, l.schedule,
                null::text, null::text, l.occurrence, l.target, l.payload, l.recorded_at, l.holder, l.detail,
                l.position::text
            from shardclock.command_log l
            where l.position < $7::bigint
                and (l.intent in ('TRIGGERED', 'CANCELED') or (l.intent = 'SKIPPED' and l.detail ->> 'policy' = 'skip'))
                and ($1 = 'ENDED' or l.intent = $1)
                and ($2::text is null or l.tenant_id = $2)
                and ($9::text is null or l.name = $9)
                and ($3::text is null or l.name ^@ $3)
                and ($4::timestamptz is null or l.due_date >= $4)
                and ($5::timestamptz is null or l.due_date < $5)
                and ($6::bigint is null or l.process_instance_key = $6)
                and ($10::text is null or l.target = $10)
                and (not $11 or l.schedule is not null)
                and ($12::timestamptz is null or l.recorded_at >= $12)
                and ($13::timestamptz is null or l.recorded_at < $13)
            order by l.position desc
            limit $8
        $ended$
        using state, tenant_id, name_prefix, due_from, due_before, process_instance_key,
            coalesce(page, '9223372036854775807'), page_size, name, target, only_schedules, changed_from,
            changed_before;
    elsif order_by = 'change' then
        return query execute $changed$
            select
                t.timer_key, $1, t.tenant_id, t.name, t.timer_type, t.process_instance_key, t.element_instance_key,
                t.target_element_id, coalesce(t.paused_due_date, t.due_date), t.created_at, t.changed_at, t.resume_at,
                t.schedule, coalesce(t.zone, 'UTC'), coalesce(t.missed, 'fire_once'), t.occurrence, t.target, t.payload,
                null::timestamptz, t.claimed_by, null::jsonb,
                t.changed_at || '/' || t.timer_key || '/change'
            from shardclock.timers t
            where t.tenant_id = $2
                and t.changed_at is not null
                and (t.changed_at, t.timer_key)
                    < (split_part($7, '/', 1)::timestamptz, split_part($7, '/', 2)::bigint)
                and ($12::timestamptz is null or t.changed_at >= $12)
                and ($13::timestamptz is null or t.changed_at < $13)
                and ($6::bigint is null or t.process_instance_key = $6)
                and ($10::text is null or t.target = $10)
                and ($1 = 'PAUSED') = (t.paused_due_date is not null)
                and ($1 = 'PENDING' or t.due_date = '9999-12-31 23:59:59.999998+00')
                and ($9::text is null or t.name = $9)
                and ($3::text is null or t.name ^@ $3)
                and ($4::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= $4)
                and ($5::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < $5)
                and (not $11 or t.schedule is not null)
            order by t.changed_at desc, t.timer_key desc
            limit $8
        $changed$
        using state, tenant_id, name_prefix, due_from, due_before, process_instance_key,
            coalesce(page, 'infinity/0'), page_size, name, target, only_schedules, changed_from, changed_before;
    elsif only_schedules then
        -- Sort all schedules of the tenant; a quota limits their number. A search by due date could read a million
        -- plain timers for a page of schedules.
        return query execute $schedules$
            with schedules as materialized (
                select t.timer_key, t.due_date
                from shardclock.timers t
                where t.schedule is not null
                    and ($2::text is null or t.tenant_id = $2)
                    and ($6::bigint is null or t.process_instance_key = $6)
                    and ($10::text is null or t.target = $10)
                    and ($9::text is null or t.name = $9)
                    and ($3::text is null or t.name ^@ $3)
                    and ($1 = 'PAUSED') = (t.paused_due_date is not null)
                    and ($4::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= $4)
                    and ($5::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < $5)
                    and ($11::timestamptz is null or t.changed_at >= $11)
                    and ($12::timestamptz is null or t.changed_at < $12)
            )
            select
                t.timer_key, $1, t.tenant_id, t.name, t.timer_type, t.process_instance_key, t.element_instance_key,
                t.target_element_id, coalesce(t.paused_due_date, t.due_date), t.created_at, t.changed_at, t.resume_at,
                t.schedule, coalesce(t.zone, 'UTC'), coalesce(t.missed, 'fire_once'), t.occurrence, t.target, t.payload,
                null::timestamptz, t.claimed_by, null::jsonb,
                t.due_date || '/' || t.timer_key
            from (
                select s.timer_key
                from schedules s
                where (s.due_date, s.timer_key)
                    > (split_part($7, '/', 1)::timestamptz, split_part($7, '/', 2)::bigint)
                order by s.due_date, s.timer_key
                limit $8
            ) s
            join shardclock.timers t on t.timer_key = s.timer_key
            order by t.due_date, t.timer_key
        $schedules$
        using state, tenant_id, name_prefix, due_from, due_before, process_instance_key,
            coalesce(page, '-infinity/0'), page_size, name, target, changed_from, changed_before;
    elsif tenant_id <> 'default' or target <> 'log' or process_instance_key is not null
        or coalesce(name, name_prefix) is not null or coalesce(changed_from, changed_before) is not null
    then
        return query execute $pending$
            select
                t.timer_key, $1, t.tenant_id, t.name, t.timer_type, t.process_instance_key, t.element_instance_key,
                t.target_element_id, coalesce(t.paused_due_date, t.due_date), t.created_at, t.changed_at, t.resume_at,
                t.schedule, coalesce(t.zone, 'UTC'), coalesce(t.missed, 'fire_once'), t.occurrence, t.target, t.payload,
                null::timestamptz, t.claimed_by, null::jsonb,
                t.due_date || '/' || t.timer_key
            from shardclock.timers t
            where ($2::text is null or t.tenant_id = $2)
                and ($6::bigint is null or t.process_instance_key = $6)
                and ($10::text is null or t.target = $10)
                and (t.due_date, t.timer_key) > (split_part($7, '/', 1)::timestamptz, split_part($7, '/', 2)::bigint)
                and ($1 = 'PAUSED') = (t.paused_due_date is not null)
                and ($1 = 'PENDING' or t.due_date = '9999-12-31 23:59:59.999998+00')
                and ($1 = 'PAUSED' or t.due_date < '9999-12-31 23:59:59.999998+00')
                and ($9::text is null or t.name = $9)
                and ($3::text is null or t.name ^@ $3)
                and ($4::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= $4)
                and ($1 = 'PAUSED' or $4::timestamptz is null or t.due_date >= $4)
                and ($5::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < $5)
                and ($1 = 'PAUSED' or $5::timestamptz is null or t.due_date < $5)
                and ($11::timestamptz is null or t.changed_at >= $11)
                and ($12::timestamptz is null or t.changed_at < $12)
            order by t.due_date, t.timer_key
            limit $8
        $pending$
        using state, tenant_id, name_prefix, due_from, due_before, process_instance_key,
            coalesce(page, '-infinity/0'), page_size, name, target, changed_from, changed_before;
    else
        -- Read the soonest timers of each slot, so that a million pending timers need no sort.
        return query execute $all$
            select
                t.timer_key, $1, t.tenant_id, t.name, t.timer_type, t.process_instance_key, t.element_instance_key,
                t.target_element_id, coalesce(t.paused_due_date, t.due_date), t.created_at, t.changed_at, t.resume_at,
                t.schedule, coalesce(t.zone, 'UTC'), coalesce(t.missed, 'fire_once'), t.occurrence, t.target, t.payload,
                null::timestamptz, t.claimed_by, null::jsonb,
                t.due_date || '/' || t.timer_key
            from generate_series(0, 839) as s (slot)
            cross join lateral (
                select t.*
                from shardclock.timers t
                where t.slot = s.slot
                    and ($6::text is null or t.tenant_id = $6)
                    and ($7::text is null or t.target = $7)
                    and (t.due_date, t.timer_key)
                        > (split_part($4, '/', 1)::timestamptz, split_part($4, '/', 2)::bigint)
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
        using state, due_from, due_before, coalesce(page, '-infinity/0'), page_size, tenant_id, target;
    end if;
end
$$;

comment on function shardclock.find_timers is $$Finds timers, past and present, one page at a time: PENDING timers soonest
first, PAUSED timers by key, ended timers newest first. With order_by change, pending and paused timers are sorted by their last change, newest first.

state: PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED, or ENDED for all ended timers
tenant_id: only timers of this tenant
name_prefix: only timers with a name that begins with this text; give the tenant_id, too
name: only timers with this name; give the tenant_id, too
due_from: only timers that are due at this moment or later
due_before: only timers that are due before this moment
process_instance_key: only timers of this process instance
target: only timers with this target; for ended timers, the call reads the log from its newest record backwards until the page is full
only_schedules: true: only schedules
changed_from: only timers that a client changed at this moment or later (for a paused timer the time of the pause counts, for an ended timer the time of its end); give the tenant_id, too
changed_before: only timers that a client changed before this moment, as for changed_from
order_by: due or change; for change, give the tenant_id, too. The order change leaves out timers that no client has changed; ended timers always have this order
page: the `page` of the last row of the previous page; null: the first page
page_size: the limit of timers
returns: one row for each timer: the columns of timer_history, and page, an argument of the next call
errors: 22023 for an unknown state or order, or for a page that no search has returned
example: select timer_key, name, due_date from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'order-', page_size => 100);
$$;
