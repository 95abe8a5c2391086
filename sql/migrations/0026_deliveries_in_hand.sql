-- Nobody holds or changes what a worker or a program has in hand; a slow redrive gives each its own time.

-- Says what the delivery of a timer is now: WAITING, IN_HAND, or how it ended. One that waits is locked: from then on no
-- worker claims it, because claims leave out what is locked; and what a worker did while we waited for the lock is seen.
-- One in hand is not locked: until the end of the caller's transaction its worker could neither renew nor settle it.
create or replace function shardclock.lock_delivery(timer_key bigint)
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
        select d.claimed_until > clock_timestamp() into is_in_hand
        from shardclock.deliveries d
        where d.timer_key = lock_delivery.timer_key;
        if is_in_hand then
            return 'IN_HAND';
        end if;
        begin
            select d.claimed_until > clock_timestamp() into is_in_hand
            from shardclock.deliveries d
            where d.timer_key = lock_delivery.timer_key
            for update;
            if is_in_hand then
                -- A worker claimed it while we waited. This exception releases the lock, which we have only now got.
                raise exception using errcode = 'SC001';
            end if;
            if found then
                return 'WAITING';
            end if;
        exception when sqlstate 'SC001' then
            return 'IN_HAND';
        end;
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
        -- Between the looks somebody may have redriven it.
        if ended_as <> 'UNKNOWN'
            or not exists (select from shardclock.deliveries d where d.timer_key = lock_delivery.timer_key)
        then
            return ended_as;
        end if;
    end loop;
end
$$;

comment on function shardclock.lock_delivery is
    'Internal: Says what the delivery of a timer is now: WAITING, then it is locked; IN_HAND, or how it ended.';

comment on function shardclock.cancel_delivery is $$Ends a delivery that waits: its target is not called any more, and its
record says who did it. One that a worker or a program has in hand is left as it is.

timer_key: the timer that fired
reason: why, for the record
returns: DISCARDED (also if it was before); IN_HAND: a worker is calling the target, or a program does the service task; DEAD: it was given up; DELIVERED: it has ended; UNKNOWN: it has no delivery
errors: 55000 for a start of a job, and for what an instance of a process waits for; 42501 without a right on shardclock.deliveries
example: select shardclock.cancel_delivery(42, reason => 'refunded by hand');
$$;

comment on function shardclock.retry_delivery is $$Makes the next attempt of a delivery due now. Its failed attempts stay
counted. One that a worker or a program has in hand is left as it is.

timer_key: the timer that fired
returns: DUE (also if it was due before); IN_HAND: a worker is calling the target, or a program does the service task; DEAD: it was given up; DELIVERED or DISCARDED: it has ended; UNKNOWN: it has no delivery
errors: 42501 without a right on shardclock.deliveries
example: select shardclock.retry_delivery(42);
$$;

-- A service task that a program has leased is not due until its lease is over. Made due, a handler would get it.
create or replace function shardclock.retry_deliveries(timer_keys bigint[])
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
                where w.timer_key = any (retry_deliveries.timer_keys)
                    and w.next_attempt_at > now()
                    and (w.claimed_until is null or w.claimed_until <= clock_timestamp())
                for update skip locked
            )
        )
    returning d.timer_key;
end
$$;

comment on function shardclock.retry_deliveries is $$Makes the next attempts of many deliveries due now. Their failed
attempts stay counted. Those that a worker or a program has in hand are left as they are.

timer_keys: the timers that fired
returns: the keys of those that are due now, and were not before
errors: 42501 without a right on shardclock.deliveries
example: select shardclock.retry_deliveries(array(select timer_key from shardclock.deliveries where target = 'order.expired' and failed_attempts > 0));
$$;

-- At a rate, each one's new life begins when it is due. While it began for all at once, the last ones of a slow redrive
-- were older than give_up_after when their turn came, and were dead letters again without a call.
create or replace function shardclock.redrive_dead_letters(
    timer_keys bigint[],
    per_s integer default null
)
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    if per_s < 1 then
        raise exception 'per_s % is not possible: redrive at least 1 a second, or leave it out', per_s
            using errcode = 'invalid_parameter_value';
    end if;
    return query
    with risen as (
        delete from shardclock.dead_letters d
        where d.timer_key = any (redrive_dead_letters.timer_keys)
        returning d.*
    ),
    numbered as materialized (
        select
            r.*,
            now() + coalesce((row_number() over (order by r.died_at, r.timer_key) - 1)::double precision / per_s, 0)
                * interval '1 second' as begins_at
        from risen r
    ),
    recorded as (
        insert into shardclock.command_log (
            timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
            timer_type, target, target_element_id, name, schedule, detail
        )
        select
            n.timer_key, n.process_instance_key, n.element_instance_key, n.due_date, n.created_at, n.occurrence,
            'REDRIVEN', n.tenant_id, n.timer_type, n.target, n.target_element_id, n.name, n.schedule,
            jsonb_build_object('by', session_user)
        from numbered n
    )
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, fired_at,
        redriven_at, occurrence, claims, given_back, slot, tenant_id, timer_type, target, target_element_id, name,
        schedule, payload, failures
    )
    select
        n.timer_key, n.process_instance_key, n.element_instance_key, n.begins_at, n.due_date, n.created_at, n.fired_at,
        n.begins_at, n.occurrence,
        -- A claim goes on counting, so an answer to an old one never counts. The old ones count as given back: they
        -- don't say that workers die of it.
        n.claims, n.claims, n.slot, n.tenant_id, n.timer_type, n.target,
        n.target_element_id, n.name, n.schedule, n.payload, n.failures
    from numbered n
    returning deliveries.timer_key;
end
$$;

comment on column shardclock.deliveries.redriven_at is
    'When its new life began or begins, after it had been given up and redriven; null: it never was.';
