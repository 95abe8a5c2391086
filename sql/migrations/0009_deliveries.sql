-- What a firing calls: handlers that an app declares, the deliveries on their way to them, and those that were given up.

create table shardclock.handlers (
    target text not null,
    reference text not null,
    policy jsonb not null,
    declared_at timestamptz not null default now(),
    withdrawn_at timestamptz,

    constraint handlers_pkey primary key (target),
    constraint target_is_a_handler check (target <> 'log' and target not like 'webhook:%')
);

comment on table shardclock.handlers is
    'The handlers that an app has declared; each is a target of timers.';
comment on column shardclock.handlers.reference is 'Where the function is: package.module:function.';
comment on column shardclock.handlers.policy is 'How often and how long it is called, as the app declared it.';
comment on column shardclock.handlers.withdrawn_at is
    'When the app was started without this handler: no new timer may name it; null: it is there.';

create table shardclock.deliveries (
    timer_key bigint not null,
    process_instance_key bigint,
    element_instance_key bigint,
    next_attempt_at timestamptz not null,
    due_date timestamptz not null,
    created_at timestamptz not null,
    fired_at timestamptz not null default clock_timestamp(),
    redriven_at timestamptz,
    claimed_by bigint,
    claimed_until timestamptz,
    occurrence bigint not null,
    -- How often a worker has claimed it. An answer of a worker counts only if nobody has claimed it since.
    claims integer not null default 0,
    failed_attempts integer not null default 0,
    given_back integer not null default 0,
    slot smallint not null,
    tenant_id text not null,
    timer_type text not null,
    target text not null,
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,
    failures jsonb,

    constraint deliveries_pkey primary key (timer_key),
    constraint claim_is_whole check ((claimed_by is null) = (claimed_until is null))
)
-- A queue, like timers: 0001_timers.sql says why. But each row is claimed once at least, and all rows of a page at nearly
-- the same time: the room for all of them makes a claim cost half, and write 270 bytes less of write-ahead log.
with (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

-- By target and tenant first: what waits behind a target that doesn't answer is never read on the way to others. By key
-- last: so a claim can begin behind the row at which the last one ended.
create index deliveries_by_lane on shardclock.deliveries (target, tenant_id, next_attempt_at, timer_key);

comment on table shardclock.deliveries is
    'Firings on their way to their targets. What has ended is in shardclock.command_log, or in shardclock.dead_letters.';
comment on column shardclock.deliveries.timer_key is 'The key of the timer that fired; a firing has one delivery.';
comment on column shardclock.deliveries.next_attempt_at is 'When the next attempt is due.';
comment on column shardclock.deliveries.fired_at is 'When the timer fired.';
comment on column shardclock.deliveries.redriven_at is
    'When it was redriven, after it had been given up; null: it never was.';
comment on column shardclock.deliveries.claimed_by is
    'The holder (one incarnation of a worker) that has it in hand until claimed_until.';
comment on column shardclock.deliveries.failed_attempts is 'How many attempts have failed.';
comment on column shardclock.deliveries.given_back is
    'How often a worker has claimed it and given it back uncalled, for example at a drain.';
comment on column shardclock.deliveries.slot is
    'timer_key % 840; worker i of N keeps the slots with slot % N = i.';
comment on column shardclock.deliveries.failures is
    'The last failed attempts, an array of {at, attempt, reason, worker}, oldest first; null: none has failed.';

create table shardclock.dead_letters (
    timer_key bigint not null,
    process_instance_key bigint,
    element_instance_key bigint,
    due_date timestamptz not null,
    created_at timestamptz not null,
    fired_at timestamptz not null,
    died_at timestamptz not null default clock_timestamp(),
    occurrence bigint not null,
    claims integer not null,
    failed_attempts integer not null,
    slot smallint not null,
    tenant_id text not null,
    timer_type text not null,
    target text not null,
    target_element_id text,
    name text,
    schedule text,
    reason text not null,
    payload jsonb,
    failures jsonb,

    constraint dead_letters_pkey primary key (timer_key)
);

create index dead_letters_by_target on shardclock.dead_letters (target, tenant_id, died_at);

comment on table shardclock.dead_letters is
    'Deliveries that were given up, until somebody redrives or discards them.';
comment on column shardclock.dead_letters.died_at is 'When it was given up.';
comment on column shardclock.dead_letters.claims is
    'How often workers had claimed it: if it is redriven, an answer to one of these claims must not count.';
comment on column shardclock.dead_letters.reason is 'Why it was given up, in a sentence.';

comment on column shardclock.command_log.intent is
    'TRIGGERED, CANCELED, RESCHEDULED, SKIPPED, PAUSED or RESUMED; how a delivery ended: DELIVERED, DISCARDED or DEAD; '
    'REDRIVEN: a dead letter is delivered again.';
comment on column shardclock.command_log.detail is
    'TRIGGERED: changed_at, if a client had set a new due date. CANCELED, PAUSED: reason, by; CANCELED: replaced_by. '
    'RESCHEDULED: due_date, schedule, by. SKIPPED: count (how many did not fire, from this occurrence on), policy. '
    'DELIVERED, DISCARDED, DEAD: attempt, ms (the duration of the last attempt), reason, result, by. REDRIVEN: by.';

insert into shardclock.scale (role) values ('worker');

-- The target that a client names by this change, if it is not the log; null: it names none. A schedule's next occurrence,
-- which a firing writes, names none: a schedule goes on when its handler is withdrawn.
create function shardclock.named_target(wanted shardclock.timers, before shardclock.timers)
returns text
language sql
immutable
begin atomic
    select case
        when wanted.target = 'log' or wanted.target = before.target then null
        when before.target is not null or wanted.occurrence = 1 then wanted.target
    end;
end;

-- Appends a failed attempt; of many, the first three and the last seven are kept.
create function shardclock.with_failure(
    failures jsonb, attempt integer, reason text, worker bigint, at timestamptz
)
returns jsonb
language sql
stable
begin atomic
    select case when jsonb_array_length(failures) >= 10 then failures - 3 else coalesce(failures, '[]') end
        || jsonb_build_object('attempt', attempt, 'at', at, 'reason', reason, 'worker', lpad(to_hex(worker), 16, '0'));
end;

comment on function shardclock.with_failure is
    'Internal: Appends an attempt to the failures of a delivery; of many, the first three and the last seven are kept.';

-- The value of a metric's label: a user may have as many targets as he likes, a metric not.
create function shardclock.kind_of_target(target text)
returns text
language sql
immutable
begin atomic
    select case when target = 'log' then 'log' when target like 'webhook:%' then 'webhook' else 'handler' end;
end;

comment on function shardclock.kind_of_target is 'Internal: Says whether a target is the log, a handler or a webhook.';

comment on function shardclock.named_target is
    'Internal: Names the target that a change of a timer asks for, if it is not the log.';

-- Delivers dead letters again, from their first attempt on. They run with the caller's rights: a record says who did it.
create function shardclock.redrive_dead_letters(
    timer_keys bigint[],
    per_s integer default null
)
returns setof bigint
language plpgsql
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
        select r.*, row_number() over (order by r.died_at, r.timer_key) - 1 as number from risen r
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
        n.timer_key, n.process_instance_key, n.element_instance_key,
        now() + coalesce(n.number::double precision / per_s, 0) * interval '1 second',
        n.due_date, n.created_at, n.fired_at, now(), n.occurrence,
        -- A claim goes on counting, so an answer to an old one never counts. The old ones count as given back: they
        -- don't say that workers die of it.
        n.claims, n.claims, n.slot, n.tenant_id, n.timer_type, n.target,
        n.target_element_id, n.name, n.schedule, n.payload, n.failures
    from numbered n
    returning deliveries.timer_key;
end
$$;

comment on function shardclock.redrive_dead_letters is $$Delivers dead letters again, from their first attempt on.

timer_keys: the timers whose deliveries were given up
per_s: how many of them become due in a second, the one that was given up first first; null: all at once
returns: the keys of those that are delivered again; a missing one was no dead letter
errors: 22023 for a rate that is none
example: select shardclock.redrive_dead_letters(array(select timer_key from shardclock.dead_letters where target = 'order.expired'), per_s => 50);
$$;

create function shardclock.discard_dead_letters(
    timer_keys bigint[],
    reason text default null
)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    return query
    with gone as (
        delete from shardclock.dead_letters d
        where d.timer_key = any (discard_dead_letters.timer_keys)
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

timer_keys: the timers whose deliveries were given up
reason: why, for the records
returns: the keys of those that were discarded; a missing one was no dead letter
errors: 42501 without a right on shardclock.dead_letters
example: select shardclock.discard_dead_letters(array[42], reason => 'refunded by hand');
$$;
