-- An operator may put a database on hold, as a copy is by itself: nothing fires until it is released.

alter table shardclock.identity
    add column held_why text,
    add constraint held_why_is_one_to_200_characters check (held_why ~ '^[^[:cntrl:]]{1,200}$');

comment on column shardclock.identity.held_why is
    'Why an operator has put the database on hold; null: none has.';

-- A coordinator asks this, and not hold_reason. During an operator's hold it leads: then shards and workers are there when
-- the hold ends. On a database that is not its installation's it never leads. Who has read the row passes it.
create function shardclock.foreign_reason(identity text, whose shardclock.identity default null)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    here text;
begin
    if whose is null then
        select i.* into whose from shardclock.identity i where i.singleton;
    end if;
    if whose.origin is null or foreign_reason.identity is null then
        return null;
    end if;
    here := shardclock.origin();
    if whose.origin <> here then
        return format('the database is a copy, or was moved: it ran as %s and is %s now', whose.origin, here);
    end if;
    -- A database without a name puts no cluster on hold: else an operator who gives a cluster a name would stop it.
    if whose.name <> foreign_reason.identity then
        return format(
            'the database belongs to %s, and the cluster %s', whose.name,
            case foreign_reason.identity
                when '' then 'has no SHARDCLOCK_IDENTITY'
                else 'is ' || foreign_reason.identity
            end
        );
    end if;
    return null;
end
$$;

comment on function shardclock.foreign_reason is
    'Internal: Says why this is not the database of a cluster that is configured for an installation; null: it is.';

create or replace function shardclock.hold_reason(identity text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    whose shardclock.identity;
begin
    select i.* into whose from shardclock.identity i where i.singleton;
    -- Every claim asks: nearly always this is all.
    if whose.held_why is null then
        return shardclock.foreign_reason(hold_reason.identity, whose);
    end if;
    -- Both, and this first: a copy of a database that was on hold is on hold for two reasons.
    return concat_ws(
        '; ', shardclock.foreign_reason(hold_reason.identity, whose), 'an operator said: ' || whose.held_why
    );
end
$$;

-- A program gets no tasks during an operator's hold: else it would do what handlers may not.
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
    if exists (select from shardclock.identity i where i.held_why is not null) then
        return;
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
