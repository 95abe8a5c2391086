-- While a program has a service task, the task is not due: it is due again when the lease runs out. So nobody reads past
-- tasks that are leased. Nor does a worker claim one: a lease that is much longer than a worker's looked to it as if it
-- had been taken before the clock was set back.
create or replace function shardclock.activate_service_tasks(
    task_type text, most integer default 10, lease interval default 'PT1M', tenant_id text default 'default'
)
returns table (
    task_key bigint, claim integer, instance_key bigint, token bigint, node_id text, failed_attempts integer,
    variables jsonb
)
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    if most is null or most not between 1 and 1000 then
        raise exception 'most % is not possible: take 1 to 1000', most using errcode = 'invalid_parameter_value';
    end if;
    if lease is null or lease < interval '1 s' or lease > interval '1 day' then
        raise exception 'lease % is not possible: give a second to a day', lease
            using errcode = 'invalid_parameter_value';
    end if;
    return query
    update shardclock.deliveries d
    set claimed_by = 0,
        claimed_until = clock_timestamp() + lease,
        next_attempt_at = clock_timestamp() + lease,
        claims = d.claims + 1
    where d.timer_key = any (
        array(
            select f.timer_key
            from shardclock.deliveries f
            where f.target = task_type
                and f.tenant_id = activate_service_tasks.tenant_id
                and f.timer_type = 'SERVICE_TASK'
                and f.next_attempt_at <= now()
                and (f.claimed_until is null or f.claimed_until < clock_timestamp())
            order by f.next_attempt_at, f.timer_key
            limit most
            for update skip locked
        )
    )
    returning
        d.timer_key, d.claims, d.process_instance_key, d.element_instance_key, d.target_element_id, d.failed_attempts,
        d.payload;
end
$$;

-- The incident of another tenant's instance is none that this one may know of.
create or replace function shardclock.resolve_incident(instance_key bigint, token bigint, tenant_id text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    signal bigint;
    has_stopped boolean;
begin
    select max(n.signal_key), bool_or(n.signal_key = 0) into signal, has_stopped
    from shardclock.incidents n
    join shardclock.instances i on i.instance_key = n.instance_key
    where n.instance_key = resolve_incident.instance_key
        and n.token = resolve_incident.token
        and (resolve_incident.tenant_id is null or i.tenant_id = resolve_incident.tenant_id);
    if signal is null then
        return 'NOT_FOUND';
    end if;
    if not has_stopped then
        raise exception 'the incident of token % is a signal that no engine could take: send it again (shardclock dead-letters redrive %)',
            token, signal
            using errcode = 'invalid_parameter_value';
    end if;
    return shardclock.signal_instance(instance_key, tenant_id, '{"kind": "retried"}', token);
end
$$;

-- A token waits for such a signal: without it, nothing that the instance's owner could do would let the token go on.
create or replace function shardclock.discard_dead_letters(
    timer_keys bigint[],
    reason text default null
)
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    with gone as (
        delete from shardclock.dead_letters d
        where d.timer_key = any (discard_dead_letters.timer_keys)
            and not exists (
                select
                from shardclock.instances i
                where i.instance_key = d.process_instance_key
                    and i.ended_at is null
                    and (d.target = 'process:instance') is true
            )
        returning d.*
    )
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, target_element_id, name, schedule, detail
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence,
        'DISCARDED', g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule,
        jsonb_strip_nulls(jsonb_build_object('by', session_user, 'reason', discard_dead_letters.reason))
    from gone g
    returning command_log.timer_key;
end
$$;

comment on function shardclock.discard_dead_letters is $$Discards dead letters for good; their records say who did it.
A signal to an instance that still runs is left: redrive it, or cancel the instance.

timer_keys: the timers whose deliveries were given up
reason: why, for the records
returns: the keys of those that were discarded; a missing one was no dead letter, or an instance waits for it
errors: 42501 without a right on shardclock.dead_letters
example: select shardclock.discard_dead_letters(array[42], reason => 'refunded by hand');
$$;
