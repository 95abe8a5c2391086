-- Targets: a search by target, and the verbs of deliveries that are on their way.

-- Plain timers, whose target is the log, are not in this index: they pay nothing for it. A claim changes none of its
-- columns, so it stays heap-only.
create index timers_by_target on shardclock.timers (target, due_date, timer_key) where target <> 'log';

-- Only deliveries of which an attempt has failed are in this index. A claim changes none of its columns.
create index deliveries_failing on shardclock.deliveries (target, tenant_id, next_attempt_at, timer_key)
where failed_attempts > 0;

-- Replaced, and not added beside the old ones: a call that names no target, as the previous release sends it, would fit
-- both. The new argument comes last, so a call by places means the same as before.
drop function shardclock.find_timers(text, text, text, text, timestamptz, timestamptz, bigint, text, integer);
drop function shardclock.find_keys(text, text, text, timestamptz, timestamptz, bigint, bigint, integer);

-- A text run by `execute` is planned for its actual values: so a filter that is null costs nothing.
create function shardclock.find_timers(
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

-- For callers that change all timers found: keys only, in their order, which stays the same when timers change.
create function shardclock.find_keys(
    state text default 'PENDING',
    tenant_id text default null,
    name_prefix text default null,
    due_from timestamptz default null,
    due_before timestamptz default null,
    process_instance_key bigint default null,
    after_key bigint default 0,
    page_size integer default null,
    target text default null
)
returns setof bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
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
            and ($9::text is null or t.target = $9)
            and ($1 = 'PAUSED') = (t.paused_due_date is not null)
            and ($1 = 'PENDING' or t.due_date = '9999-12-31 23:59:59.999998+00')
            and ($4::timestamptz is null or coalesce(t.paused_due_date, t.due_date) >= $4)
            and ($1 = 'PAUSED' or $4::timestamptz is null or t.due_date >= $4)
            and ($5::timestamptz is null or coalesce(t.paused_due_date, t.due_date) < $5)
            and ($1 = 'PAUSED' or $5::timestamptz is null or t.due_date < $5)
        order by t.timer_key
        limit $8
    $keys$
    using state, tenant_id, name_prefix, due_from, due_before, process_instance_key, after_key, page_size, target;
end
$$;

comment on function shardclock.find_keys is $$Finds the keys of pending or paused timers, for callers that change them
all. The keys are in ascending order, which stays the same when timers change.

as: find_timers
state: PENDING or PAUSED
target: only timers of this target
after_key: the last key that you have; 0: begin with the first
page_size: how many keys at most; null: all
returns: the keys
errors: 22023 for another state
example: select shardclock.find_keys(tenant_id => 'acme', due_before => '2031-01-01T00:00:00Z', page_size => 1000);
$$;

-- Locks the delivery of a timer, and says what it is now: WAITING, IN_HAND, or how it ended. From then on no worker
-- claims it, because claims leave out what is locked; and what a worker did while we waited for the lock is seen.
create function shardclock.lock_delivery(timer_key bigint)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    is_in_hand boolean;
    ended_as text;
begin
    loop
        select d.claimed_until is not null and d.claimed_until > clock_timestamp() into is_in_hand
        from shardclock.deliveries d
        where d.timer_key = lock_delivery.timer_key
        for update;
        if found then
            return case when is_in_hand then 'IN_HAND' else 'WAITING' end;
        end if;
        select coalesce(
            (select 'DEAD' from shardclock.dead_letters d where d.timer_key = lock_delivery.timer_key),
            (
                select l.intent
                from shardclock.command_log l
                where l.timer_key = lock_delivery.timer_key and l.intent in ('DELIVERED', 'DISCARDED')
                -- An expression, so that the planner does not scan the index on position for it.
                order by l.position + 0 desc
                limit 1
            ),
            'UNKNOWN'
        )
        into ended_as;
        -- Between the two looks somebody may have redriven it.
        if ended_as <> 'UNKNOWN'
            or not exists (select from shardclock.deliveries d where d.timer_key = lock_delivery.timer_key)
        then
            return ended_as;
        end if;
    end loop;
end
$$;

comment on function shardclock.lock_delivery is
    'Internal: Locks the delivery of a timer, and says what it is now: WAITING, IN_HAND, or how it ended.';

create function shardclock.cancel_delivery(timer_key bigint, reason text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    state text := shardclock.lock_delivery(cancel_delivery.timer_key);
    job text;
begin
    if state <> 'WAITING' then
        return state;
    end if;
    select substr(d.target, 5) into job
    from shardclock.deliveries d
    where d.timer_key = cancel_delivery.timer_key and d.target like 'job:%';
    if found then
        -- The job's row knows of this start, and the end of a run plans the next one.
        raise exception 'the delivery of timer % is a start of job "%": disable the job (shardclock jobs disable)',
            cancel_delivery.timer_key, job
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    with gone as (
        delete from shardclock.deliveries d
        where d.timer_key = cancel_delivery.timer_key
        returning d.*
    )
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, target_element_id, name, schedule, detail
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence,
        'DISCARDED', g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule,
        jsonb_strip_nulls(jsonb_build_object('by', session_user, 'reason', cancel_delivery.reason))
    from gone g;
    return 'DISCARDED';
end
$$;

comment on function shardclock.cancel_delivery is $$Ends a delivery that waits: its target is not called any more, and its
record says who did it. One that a worker has in hand is left as it is.

timer_key: the timer that fired
reason: why, for the record
returns: DISCARDED (also if it was before); IN_HAND: a worker is calling the target; DEAD: it was given up; DELIVERED: it has ended; UNKNOWN: it has no delivery
errors: 55000 for a start of a job; 42501 without a right on shardclock.deliveries
example: select shardclock.cancel_delivery(42, reason => 'refunded by hand');
$$;

create function shardclock.retry_delivery(timer_key bigint)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    state text := shardclock.lock_delivery(retry_delivery.timer_key);
begin
    if state <> 'WAITING' then
        return state;
    end if;
    update shardclock.deliveries d
    set next_attempt_at = now()
    where d.timer_key = retry_delivery.timer_key and d.next_attempt_at > now();
    return 'DUE';
end
$$;

comment on function shardclock.retry_delivery is $$Makes the next attempt of a delivery due now. Its failed attempts stay
counted.

timer_key: the timer that fired
returns: DUE (also if it was due before); IN_HAND: a worker is calling the target; DEAD: it was given up; DELIVERED or DISCARDED: it has ended; UNKNOWN: it has no delivery
errors: 42501 without a right on shardclock.deliveries
example: select shardclock.retry_delivery(42);
$$;

create function shardclock.retry_deliveries(timer_keys bigint[])
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    update shardclock.deliveries d
    set next_attempt_at = now()
    where d.timer_key = any (
            array(
                -- Who waited for rows that workers settle in an order of their own could end in a deadlock.
                select w.timer_key
                from shardclock.deliveries w
                where w.timer_key = any (retry_deliveries.timer_keys) and w.next_attempt_at > now()
                for update skip locked
            )
        )
    returning d.timer_key;
end
$$;

comment on function shardclock.retry_deliveries is $$Makes the next attempts of many deliveries due now. Their failed
attempts stay counted.

timer_keys: the timers that fired
returns: the keys of those that are due now, and were not before
errors: 42501 without a right on shardclock.deliveries
example: select shardclock.retry_deliveries(array(select timer_key from shardclock.deliveries where target = 'order.expired' and failed_attempts > 0));
$$;
