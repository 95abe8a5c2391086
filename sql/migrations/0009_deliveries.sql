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

-- Null if a timer of this tenant may name the target; else the sentence that says why not.
create function shardclock.unknown_target(target text, tenant_id text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    withdrawn_at timestamptz;
begin
    if unknown_target.target = 'log' then
        return null;
    end if;
    select h.withdrawn_at into withdrawn_at from shardclock.handlers h where h.target = unknown_target.target;
    if found and withdrawn_at is null then
        return null;
    end if;
    if found then
        return format(
            'target "%s" was withdrawn at %s: start the cluster with the app that has it', left(target, 60), withdrawn_at
        );
    end if;
    return format(
        'target "%s" is unknown: %s', left(target, 60),
        case
            when exists (select from shardclock.handlers h where h.withdrawn_at is null)
                then 'the targets are log, ' || (
                    select string_agg(t.target, ', ' order by t.target)
                    from (
                        select h.target from shardclock.handlers h where h.withdrawn_at is null order by h.target limit 20
                    ) t
                )
            else 'the only target is log; an app has more (shardclock up --app)'
        end
    );
end
$$;

comment on function shardclock.unknown_target is
    'Internal: Says why a tenant''s timer can''t have a target; null: it can.';

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

-- A row that breaks a rule is refused as if by a check constraint with the rule's name.
create or replace function shardclock.check_timer()
returns trigger
language plpgsql
as $$
declare
    broken text[] := shardclock.broken_rule(new);
    named text := shardclock.named_target(new, old);
begin
    if broken is null and named is not null then
        broken := array['target_is_known', shardclock.unknown_target(named, new.tenant_id)];
    end if;
    if broken[2] is null then
        return new;
    end if;
    raise exception '%', broken[2]
        using errcode = 'check_violation', constraint = broken[1], schema = tg_table_schema, table = tg_table_name;
end
$$;

-- The first rule that a row breaks, as in 0001_timers.sql: only the rule of the target is another one.
create or replace function shardclock.broken_rule(t shardclock.timers)
returns text[]
language sql
stable
begin atomic
    -- Python's datetime ends with year 9999 (and asyncpg writes its last moment as infinity). A row that it can't
    -- decode would make its whole batch fail.
    select case
        when t.timer_key < 1
            then array['timer_key_is_positive', format('timer_key %s must be at least 1', t.timer_key)]
        when t.due_date < '0001-01-01 00:00:00+00' or t.due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.due_date, 'due_date')
        when t.created_at < '0001-01-01 00:00:00+00' or t.created_at >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.created_at, 'created_at')
        when t.anchor < '0001-01-01 00:00:00+00' or t.anchor >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.anchor, 'anchor')
        when t.paused_due_date < '0001-01-01 00:00:00+00' or t.paused_due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.paused_due_date, 'paused_due_date')
        when t.changed_at < '0001-01-01 00:00:00+00' or t.changed_at >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.changed_at, 'changed_at')
        when t.kept_due_date < '0001-01-01 00:00:00+00' or t.kept_due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.kept_due_date, 'kept_due_date')
        when (t.paused_due_date is not null) <> (t.due_date = '9999-12-31 23:59:59.999998+00')
            or (t.paused_due_date is not null and t.claimed_by is not null)
            then array[
                'pause_is_whole',
                'a paused timer has its due date in paused_due_date, and nobody leases it: '
                'pause it with shardclock.pause_timer'
            ]
        when t.tenant_id <> 'default' and (length(t.tenant_id) not between 1 and 200 or t.tenant_id ~ '[[:cntrl:]]')
            then array[
                'tenant_id_is_1_to_200_characters',
                format(
                    'tenant_id "%s" must have 1 to 200 characters, none of them a control character',
                    left(t.tenant_id, 60)
                )
            ]
        when length(t.name) not between 1 and 200 or t.name ~ '[[:cntrl:]]'
            then array[
                'name_is_1_to_200_characters',
                format('name "%s" must have 1 to 200 characters, none of them a control character', left(t.name, 60))
            ]
        when length(t.target_element_id) not between 1 and 200
            then array[
                'target_element_id_is_1_to_200_characters',
                format('target_element_id "%s" must have 1 to 200 characters', left(t.target_element_id, 60))
            ]
        when t.timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then array[
                'timer_type_is_known',
                format(
                    'timer_type "%s" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER',
                    left(t.timer_type, 60)
                )
            ]
        when t.target <> 'log' and (length(t.target) not between 1 and 200 or t.target ~ '[[:cntrl:]]')
            then array[
                'target_is_1_to_200_characters',
                format(
                    'target "%s" must have 1 to 200 characters, none of them a control character', left(t.target, 60)
                )
            ]
        when t.zone !~ '^[A-Za-z][A-Za-z0-9_+/-]{0,63}$'
            then array[
                'zone_is_1_to_64_characters',
                format('zone "%s" is unknown: write an IANA name such as UTC or Europe/Berlin', left(t.zone, 60))
            ]
        when t.missed not in ('fire_once', 'fire_all', 'skip')
            then array[
                'missed_is_known',
                format('missed "%s" is unknown: use fire_once, fire_all or skip', left(t.missed, 60))
            ]
        when octet_length(t.payload::text) > 65536
            then array[
                'payload_is_at_most_64_kib',
                format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(t.payload::text))
            ]
        when t.occurrence < 1 or not (t.repetitions = -1 or (t.repetitions >= 1 and t.occurrence <= t.repetitions))
            then array[
                'occurrence_is_within_repetitions',
                format(
                    'occurrence %s of %s is none: repetitions are -1 (without end) or a number that occurrence reaches',
                    t.occurrence, t.repetitions
                )
            ]
        -- Only timers.schedule parses schedules: a shard pauses a row whose schedule can't be parsed.
        when length(t.schedule) not between 1 and 200 or t.schedule ~ '[[:cntrl:]]'
            then array[
                'schedule_is_1_to_200_characters',
                format(
                    'schedule "%s" must have 1 to 200 characters, none of them a control character',
                    left(t.schedule, 60)
                )
            ]
        when t.schedule is null
            and (t.repetitions <> 1 or t.occurrence <> 1 or num_nonnulls(t.anchor, t.kept_due_date) > 0)
            then array[
                'schedule_is_whole',
                'repetitions, occurrence, anchor and kept_due_date are for a schedule: '
                'leave them out, or give the schedule'
            ]
        when t.schedule is not null and (t.anchor is null or t.name is null)
            then array['schedule_is_whole', format('schedule "%s" needs an anchor and a name', left(t.schedule, 60))]
    end;
end;

-- Makes the row of a new timer, as in 0005_schedule.sql: only the question for the target is another one.
create or replace function shardclock.new_timer(
    due_date timestamptz,
    delay text,
    schedule text,
    name text,
    tenant_id text,
    payload jsonb,
    target text,
    timer_type text,
    target_element_id text,
    process_instance_key bigint,
    element_instance_key bigint,
    zone text,
    missed text
)
returns shardclock.timers
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    wanted shardclock.timers;
    rule text[];
    refusal text;
begin
    if num_nonnulls(due_date, delay, schedule) <> 1 then
        raise exception 'give exactly one of due_date, delay and schedule, not %',
            num_nonnulls(due_date, delay, schedule)
            using errcode = 'invalid_parameter_value';
    end if;

    refusal := case
        when coalesce(length(tenant_id), 0) not between 1 and 200
            then format('tenant_id "%s" must have 1 to 200 characters', left(tenant_id, 60))
        when tenant_id ~ '[[:cntrl:]]' or name ~ '[[:cntrl:]]' or target_element_id ~ '[[:cntrl:]]'
            then 'tenant_id, name and target_element_id must have no control characters'
        when length(name) not between 1 and 200
            then format('name "%s" must have 1 to 200 characters', left(name, 60))
        when length(target_element_id) not between 1 and 200
            then format('target_element_id "%s" must have 1 to 200 characters', left(target_element_id, 60))
        when process_instance_key < 1 or element_instance_key < 1
            then 'process_instance_key and element_instance_key must be at least 1'
        when target is null
            then 'target null is unknown: leave it out, or name one'
        when target <> 'log' and shardclock.unknown_target(target, tenant_id) is not null
            then shardclock.unknown_target(target, tenant_id)
        when timer_type is null or timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then format(
                'timer_type "%s" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER', left(timer_type, 60)
            )
        when octet_length(payload::text) > 65536
            then format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(payload::text))
        when missed is null or missed not in ('fire_once', 'fire_all', 'skip')
            then format('missed "%s" is unknown: use fire_once, fire_all or skip', left(missed, 60))
        when missed <> 'fire_once' and schedule is null
            then format('missed "%s" is for a schedule: this timer fires once', left(missed, 60))
    end;
    if refusal is not null then
        raise exception '%', refusal using errcode = 'invalid_parameter_value';
    end if;
    if zone is distinct from 'UTC' then perform shardclock.check_zone(zone); end if;

    wanted.timer_key := nextval('shardclock.timer_key_seq');
    wanted.created_at := now();
    wanted.process_instance_key := process_instance_key;
    wanted.element_instance_key := element_instance_key;
    wanted.tenant_id := tenant_id;
    wanted.timer_type := timer_type;
    wanted.target := target;
    wanted.target_element_id := target_element_id;
    wanted.name := name;
    wanted.payload := payload;
    wanted.occurrence := 1;
    wanted.repetitions := 1;
    wanted.anchor_occurrence := 0;

    if schedule is null then
        wanted.zone := nullif(zone, 'UTC');
        wanted.due_date := case
            when delay is null then shardclock.check_due_date(due_date, 'due_date', due_date::text)
            else shardclock.delay_from_now(delay, zone, 'delay')
        end;
        return wanted;
    end if;

    wanted.schedule := schedule;
    wanted.zone := zone;
    wanted.missed := missed;
    wanted.anchor := now();
    rule := regexp_match(
        schedule,
        '^R(-1|[0-9]{0,9})/(P(?=.)([0-9]{1,5}W)?([0-9]{1,6}D)?'
        '(T(?=[0-9])([0-9]{1,7}H)?([0-9]{1,9}M)?([0-9]{1,10}([.,][0-9]{1,9})?S)?)?)$'
    );
    if rule is null or (zone <> 'UTC' and rule[2] !~ '^PT') then
        perform shardclock.check_schedule(schedule);
        wanted.zone := shardclock.agreed_zone(schedule, zone);
        -- A shard plans this schedule: until then it is due at once, so that a shard claims it, and it does not fire.
        wanted.due_date := now();
        wanted.repetitions := -1;
        wanted.anchor_occurrence := null;
        return wanted;
    end if;
    if rule[2] !~ '[1-9]' then
        raise exception 'schedule "%" has a period of zero: it must be longer', left(schedule, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    -- Rn fires n times, R0 once; R and R-1 have no end.
    wanted.repetitions := case rule[1] when '' then -1 when '0' then 1 else rule[1]::bigint end;
    wanted.repetitions := case wanted.repetitions when 0 then 1 else wanted.repetitions end;
    wanted.due_date := shardclock.delay_from_now(rule[2], 'UTC', 'schedule');
    return wanted;
end
$$;

comment on function shardclock.schedule_timer is $$Schedules one timer in the caller's transaction, and returns its key.
If the transaction is rolled back, there is no timer.

due_date: when it is due; if the moment is past, it is due at once. Give exactly one of due_date, delay and schedule
delay: an ISO 8601 duration from now, such as PT15M or P3DT12H; months and days are counted on the zone's calendar
schedule: an ISO 8601 repeat such as R/PT1H or R5/P1D, or cron of five or six fields; more in when.md
name: unique among the tenant's pending timers; a schedule without one is named `schedule-<its first key>`
tenant_id: the tenant that the timer belongs to
payload: any JSON of at most 64 KiB; it is copied into the timer's records
target: what the firing calls: a handler that an app has declared, or `webhook:NAME`, an endpoint of the tenant; log: it calls nothing, and only writes its record
timer_type: BOUNDARY, INTERMEDIATE, START_EVENT or USER
target_element_id: the element of a process that it is for
process_instance_key: the process instance that it is for; cancel_process_instance cancels all timers of one
element_instance_key: the element instance that it is for
zone: the IANA time zone on whose clock delays and schedules are counted
missed: what happens to missed occurrences of a schedule: fire_once (one firing for all), fire_all or skip
on_conflict: what happens if the name is taken: refuse (an error), ignore (the pending timer stays), or replace (the pending timer is cancelled, unless it is the same as the new one)
returns: the timer_key; with ignore or replace, that of the timer that has the name now
errors: 22023 for a wrong argument, in a sentence that names it; 23505 for a name that is taken, with refuse
example: select shardclock.schedule_timer(delay => 'PT15M', name => 'cart-7', payload => '{"cart": 7}', on_conflict => 'replace');
$$;

-- Appends a failed attempt; of many, the first three and the last seven are kept.
create function shardclock.with_failure(
    failures jsonb, attempt integer, reason text, worker bigint, at timestamptz
)
returns jsonb
language sql
stable
begin atomic
    select case when jsonb_array_length(failures) >= 10 then failures - 3 else coalesce(failures, '[]') end
        || jsonb_build_object('attempt', attempt, 'at', at, 'reason', reason, 'worker', to_hex(worker));
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
