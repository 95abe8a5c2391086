-- Scheduling, inside the client's own transaction: if it is rolled back, nothing was scheduled.

-- The sequence of keys may go back: by a restored dump, a subscriber that takes over, or an operator who sets it. Then
-- it draws keys that timers have or had. The function runs as its owner, so that a role that schedules needs no right
-- to set the sequence.
create function shardclock.advance_keys()
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
declare
    -- Far above every drawn key, and far below the last bigint. Rows with higher keys are ignored here: else one row
    -- with the last key would use up the sequence.
    far constant bigint := 4611686018427387904;
    -- More keys than others can draw between our reading of the sequence and the setval: so setval never moves it back.
    gap constant bigint := 1000000;
    highest bigint;
begin
    -- One call at a time, and without waiting for another transaction to end: the one that has this lock has moved the
    -- sequence already.
    if not pg_try_advisory_xact_lock(hashtextextended('shardclock.advance_keys', 0)) then
        return false;
    end if;
    highest := greatest(
        (select max(t.timer_key) from shardclock.timers t where t.timer_key < far),
        (select max(l.timer_key) from shardclock.command_log l where l.timer_key < far),
        -- They may be older than the log.
        (select max(d.timer_key) from shardclock.deliveries d where d.timer_key < far),
        (select max(d.timer_key) from shardclock.dead_letters d where d.timer_key < far)
    );
    perform setval('shardclock.timer_key_seq', highest + gap)
    from shardclock.timer_key_seq s
    where s.last_value < highest;
    return found;
end
$$;

comment on function shardclock.advance_keys is
    'Internal: Moves the sequence of keys beyond every key in timers and in the log; '
        'returns whether it was behind one.';

-- Makes the row of a new timer: checked, with its due date and a new key, but not written yet.
create function shardclock.new_timer(
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

-- Whether a wanted timer is the same as another one, as when a call is sent again. Rules are compared as texts, as both
-- were written. The next due date of a schedule is not compared, because its rule gives it; nor is the zone of a plain
-- timer, because its due date is a moment already.
create function shardclock.is_same_timer(wanted shardclock.timers, other shardclock.timers)
returns boolean
language sql
immutable
begin atomic
    select (
        (wanted).schedule, (wanted).payload, (wanted).target, (wanted).timer_type,
        (wanted).target_element_id, (wanted).process_instance_key, (wanted).element_instance_key
    ) is not distinct from (
        (other).schedule, (other).payload, (other).target, (other).timer_type,
        (other).target_element_id, (other).process_instance_key, (other).element_instance_key
    )
    and case
        when (wanted).schedule is null then (wanted).due_date = coalesce((other).paused_due_date, (other).due_date)
        else coalesce((wanted).zone, 'UTC') = coalesce((other).zone, 'UTC')
            and coalesce((wanted).missed, 'fire_once') = coalesce((other).missed, 'fire_once')
    end;
end;

create type shardclock.ensured_timer as (timer_key bigint, due_date timestamptz, outcome text);

comment on type shardclock.ensured_timer is
    'The timer that has the name now, and the outcome: created, replaced (it replaced another timer) or unchanged.';

-- Writes a timer, or does what on_conflict says if its name is taken: docs/decisions/0033-on-conflict.md. A key counts
-- as taken if any timer, pending or ended, has or had it, also the pending timer of this name. With `redraws` this
-- draws another key then. Without it, the caller must know the key beforehand, and draws another one itself: the answer
-- is null, and nothing has been done.
create function shardclock.write_timer(
    wanted shardclock.timers,
    on_conflict text,
    redraws boolean
)
returns shardclock.ensured_timer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    written boolean;
    bearer bigint;
    other shardclock.timers;
    replaced shardclock.timers;
begin
    if on_conflict is distinct from 'refuse' then
        perform shardclock.check_on_conflict(on_conflict, wanted.name);
    end if;
    loop
        insert into shardclock.timers (
            timer_key, created_at, process_instance_key, element_instance_key, due_date, anchor, anchor_occurrence,
            repetitions, tenant_id, timer_type, target, zone, missed, target_element_id, name, schedule, payload
        )
        values (
            wanted.timer_key, wanted.created_at, wanted.process_instance_key, wanted.element_instance_key,
            wanted.due_date, wanted.anchor, wanted.anchor_occurrence, wanted.repetitions, wanted.tenant_id,
            wanted.timer_type, wanted.target, wanted.zone, wanted.missed, wanted.target_element_id,
            -- A schedule outlives its first timer_key: it is cancelled by its name.
            coalesce(wanted.name, case when wanted.schedule is not null then 'schedule-' || wanted.timer_key end),
            wanted.schedule, wanted.payload
        )
        -- Not an exception block: that would need a subtransaction for every timer of a bulk load.
        on conflict do nothing;
        written := found;
        -- Checked after the row is written: a timer that had the key before has left its record. A caller that brings
        -- its own key (not `redraws`) has checked this itself.
        exit when written
            and not (redraws and exists (select from shardclock.command_log l where l.timer_key = wanted.timer_key));
        bearer := shardclock.pending_key(null, wanted.name, wanted.tenant_id);
        if written
            or wanted.name is null
            or bearer = wanted.timer_key
            or (bearer is null and shardclock.pending_key(wanted.timer_key, null, null) is not null)
        then
            if not redraws and replaced.timer_key is not null then
                raise exception 'key % was taken just now: send the timer again', wanted.timer_key
                    using errcode = 'serialization_failure';
            end if;
            if not redraws then
                return null;
            end if;
            if written then
                delete from shardclock.timers t where t.timer_key = wanted.timer_key;
            end if;
            perform shardclock.advance_keys();
            wanted.timer_key := nextval('shardclock.timer_key_seq');
            continue;
        end if;
        if on_conflict = 'refuse' and bearer is not null then
            raise exception 'name "%" is taken by a pending timer of tenant "%": '
                'choose another name, or say by on_conflict to ignore this one or to replace that one',
                left(wanted.name, 60), left(wanted.tenant_id, 60)
                using errcode = 'unique_violation';
        end if;
        select t.* into other from shardclock.timers t where t.timer_key = bearer;
        -- The other timer has ended since: now the name is free, or the schedule's next occurrence has it.
        continue when not found;
        if on_conflict = 'ignore' or shardclock.is_same_timer(wanted, other) then
            return (other.timer_key, coalesce(other.paused_due_date, other.due_date), 'unchanged'::text);
        end if;
        if not redraws and shardclock.pending_key(wanted.timer_key, null, null) is not null then
            return null; -- before anything is changed
        end if;
        delete from shardclock.timers t where t.timer_key = bearer returning t.* into replaced;
        -- The replaced schedule may have fired since our transaction began: with an earlier anchor, a shard would plan
        -- the same occurrence for the new schedule again.
        if wanted.anchor_occurrence is null and replaced.occurrence > 1 then
            wanted.anchor := greatest(wanted.anchor, replaced.created_at);
        end if;
    end loop;
    if replaced.timer_key is not null then
        perform shardclock.log_replaced(replaced, wanted.timer_key);
    end if;
    return (wanted.timer_key, wanted.due_date, case when replaced.timer_key is null then 'created' else 'replaced' end);
end
$$;

create function shardclock.check_on_conflict(on_conflict text, name text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if on_conflict is null or on_conflict not in ('refuse', 'ignore', 'replace') then
        raise exception 'on_conflict "%" is unknown: use refuse, ignore or replace', left(on_conflict, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if name is null then
        raise exception 'on_conflict "%" goes with a name: give the timer one', on_conflict
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

-- If the replaced timer was paused, the new one is paused too: deploying a new rule must not undo an operator's pause.
create function shardclock.log_replaced(replaced shardclock.timers, replaced_by bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.log_of(
        replaced, 'CANCELED', coalesce(replaced.paused_due_date, replaced.due_date),
        jsonb_build_object('reason', format('replaced by timer %s', replaced_by), 'replaced_by', replaced_by)
    );
    if replaced.paused_due_date is not null then
        perform shardclock.pause_timers(
            array[replaced_by], format('timer %s was, which it replaces', replaced.timer_key)
        );
    end if;
end
$$;

create function shardclock.schedule_timer(
    due_date timestamptz default null,
    delay text default null,
    schedule text default null,
    name text default null,
    tenant_id text default 'default',
    payload jsonb default null,
    target text default 'log',
    timer_type text default 'USER',
    target_element_id text default null,
    process_instance_key bigint default null,
    element_instance_key bigint default null,
    zone text default 'UTC',
    missed text default 'fire_once',
    on_conflict text default 'refuse'
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    return (shardclock.write_timer(
        shardclock.new_timer(
            due_date, delay, schedule, name, tenant_id, payload, target, timer_type, target_element_id,
            process_instance_key, element_instance_key, zone, missed
        ),
        on_conflict, redraws => true
    )).timer_key;
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

create function shardclock.ensure_timer(
    due_date timestamptz default null,
    delay text default null,
    schedule text default null,
    name text default null,
    tenant_id text default 'default',
    payload jsonb default null,
    target text default 'log',
    timer_type text default 'USER',
    target_element_id text default null,
    process_instance_key bigint default null,
    element_instance_key bigint default null,
    zone text default 'UTC',
    missed text default 'fire_once',
    on_conflict text default 'ignore'
)
returns shardclock.ensured_timer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    return shardclock.write_timer(
        shardclock.new_timer(
            due_date, delay, schedule, name, tenant_id, payload, target, timer_type, target_element_id,
            process_instance_key, element_instance_key, zone, missed
        ),
        on_conflict, redraws => true
    );
end
$$;

comment on function shardclock.ensure_timer is $$Schedules a timer as schedule_timer does, and returns what was done. By
default a pending timer of the same name stays.

as: schedule_timer
returns: one row: timer_key and due_date of the timer that has the name now, and the outcome: created, replaced (it replaced another timer, which is cancelled) or unchanged (it was there before)
example: select timer_key, due_date, outcome from shardclock.ensure_timer(schedule => 'R/P1D', name => 'nightly');
$$;
