-- A text run by `execute` is planned for its actual values: so a filter that is null costs nothing.
--
-- in:    state text, tenant_id text, name text, name_prefix text, due_from timestamptz, due_before timestamptz,
--        process_instance_key bigint, page text, page_size integer, target text
-- out:   setof shardclock.found_timer
-- locks: nothing
-- index: the index of the filter that leaves the fewest rows: timers_by_name_prefix, timers_by_process_instance,
--        timers_by_target, timers_by_tenant, timers_by_slot; of ended timers command_log_in_order, command_log_by_name
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
    target text default null
)
returns setof shardclock.found_timer
language plpgsql
stable
-- A page contains a due date as text, which must be read back as the same moment.
set datestyle = 'ISO'
set timezone = 'UTC'
set search_path = pg_catalog, pg_temp
as $$
begin
    if state is null or state not in ('PENDING', 'PAUSED', 'TRIGGERED', 'CANCELED', 'SKIPPED', 'ENDED') then
        raise exception 'state "%" is unknown: use PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED or ENDED',
            left(state, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if page_size is null or page_size not between 1 and 10000 then
        raise exception 'page_size % is not possible: use 1 to 10000', page_size
            using errcode = 'invalid_parameter_value';
    end if;
    if coalesce(name, name_prefix) is not null and tenant_id is null then
        raise exception '% "%" needs a tenant_id: names are a tenant''s own',
            case when name is null then 'name_prefix' else 'name' end, left(coalesce(name, name_prefix), 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if page is not null and page !~ (
        case when state in ('PENDING', 'PAUSED') then '^[^/]{10,40}/[0-9]{1,18}$' else '^[0-9]{1,18}$' end
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
            order by l.position desc
            limit $8
        $ended$
        using state, tenant_id, name_prefix, due_from, due_before, process_instance_key,
            coalesce(page, '9223372036854775807'), page_size, name, target;
    elsif tenant_id <> 'default' or target <> 'log' or process_instance_key is not null
        or coalesce(name, name_prefix) is not null
    then
        return query execute $pending$
            select
                t.timer_key, $1, t.tenant_id, t.name, t.timer_type, t.process_instance_key, t.element_instance_key,
                t.target_element_id, coalesce(t.paused_due_date, t.due_date), t.created_at, t.schedule,
                coalesce(t.zone, 'UTC'), coalesce(t.missed, 'fire_once'), t.occurrence, t.target, t.payload,
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
            order by t.due_date, t.timer_key
            limit $8
        $pending$
        using state, tenant_id, name_prefix, due_from, due_before, process_instance_key,
            coalesce(page, '-infinity/0'), page_size, name, target;
    else
        -- Takes the soonest timers of each slot, so that a million pending timers need no sort.
        return query execute $all$
            select
                t.timer_key, $1, t.tenant_id, t.name, t.timer_type, t.process_instance_key, t.element_instance_key,
                t.target_element_id, coalesce(t.paused_due_date, t.due_date), t.created_at, t.schedule,
                coalesce(t.zone, 'UTC'), coalesce(t.missed, 'fire_once'), t.occurrence, t.target, t.payload,
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

comment on function shardclock.find_timers is $$Finds timers, past and present, one page at a time: PENDING ones soonest
first, PAUSED ones by key, ended ones newest first.

state: PENDING, PAUSED, TRIGGERED, CANCELED, SKIPPED, or ENDED for all that have ended
tenant_id: only timers of this tenant
name_prefix: only timers whose names begin with this; give the tenant_id, too
name: only timers with this name; give the tenant_id, too
due_from: only timers that are due at this moment or later
due_before: only timers that are due before this moment
process_instance_key: only timers of this process instance
target: only timers of this target; of ended ones, the log is read from its newest record back until the page is full
page: the `page` of the last row that you have; null: the first page
page_size: how many timers at most
returns: one row for each timer: the columns of timer_history, and page, to be given to the next call
errors: 22023 for an unknown state, or for a page that no search gave
example: select timer_key, name, due_date from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'order-', page_size => 100);
$$;
