-- Every verb a pending timer has. `…_timers` take keys and return the keys they changed; `…_timer` take one timer,
-- by its key or by its name, and say what became of it. A filter's keys come from `find_timers`.

drop function shardclock.schedule_timer(
    timestamptz, text, text, text, text, jsonb, text, text, text, bigint, bigint, text
);
drop function shardclock.reschedule_timer(bigint, text, text, timestamptz, text);
drop function shardclock.after(interval, text, text);

create function shardclock.check_zone(zone text)
returns void
language plpgsql
stable
as $$
#variable_conflict use_variable
begin
    if zone is distinct from 'UTC' and not exists (select from shardclock.zones z where z.zone = check_zone.zone) then
        raise exception 'zone "%" is unknown: write an IANA name such as UTC or Europe/Berlin', left(zone, 60)
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

create function shardclock.delay_from_now(delay text, zone text, field text)
returns timestamptz
language plpgsql
stable
as $$
begin
    return shardclock.check_due_date(
        shardclock.later(now(), shardclock.parse_delay(delay, field), zone), field, delay
    );
exception when datetime_field_overflow then
    raise exception '% "%" is too long: it must end before year 10000', field, left(delay, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

-- Stops at the door what can't be a schedule. What it means is read by the shard that plans it (timers.schedule),
-- which pauses, with the reason in the log, the little that passes here and can't be (a 30 February).
create function shardclock.check_schedule(given text)
returns void
language plpgsql
immutable
as $$
declare
    period constant text := 'P(?=.)([0-9]{1,5}Y)?([0-9]{1,6}M)?([0-9]{1,6}W)?([0-9]{1,7}D)?(T(?=[0-9])([0-9]{1,8}H)?([0-9]{1,9}M)?([0-9]{1,12}S)?([0-9]+[.,][0-9]+[HMS])?)?';
    moment constant text := '[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?(\[[A-Za-z0-9_+/-]+\])?';
    months constant text := 'JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC';
    days constant text := 'MON|TUE|WED|THU|FRI|SAT|SUN';
    names constant text[] := array['second', 'minute', 'hour', 'day-of-month', 'month', 'day-of-week'];
    -- What one item of a field may be, before its step.
    items constant text[] := array[
        '[0-5]?[0-9]', '[0-5]?[0-9]', '[01]?[0-9]|2[0-3]', '0?[1-9]|[12][0-9]|3[01]',
        '0?[1-9]|1[0-2]|' || months, '0?[0-7]|' || days
    ];
    special constant text[] := array['(?!)', '(?!)', '(?!)', '\?|L|LW|L-[0-9]{1,2}|[0-9]{1,2}W', '(?!)',
        format('\?|([0-7]|%s)L|L|([0-7]|%s)#[1-5L]', days, days)];
    fields text[];
    field text;
    number integer;
begin
    if length(given) > 200 then
        raise exception 'schedule "%" is too long: it has at most 200 characters', left(given, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if given ~ '^R' then
        if given !~ format('^R(-1|[0-9]{0,10})/(/?%s|%s/(%s|%s)|%s/%s)$', period, moment, period, moment, period, moment) then
            raise exception 'schedule "%" is not an ISO 8601 repeat: write it like R/PT1H, R5/P1D, R/2031-01-31T08:00:00Z/P1M or R/PT1H/2031-01-31T08:00:00Z', left(given, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        return;
    end if;
    if given ~* '^ *@(yearly|annually|monthly|weekly|daily|midnight|hourly) *$' then
        return;
    end if;
    fields := regexp_split_to_array(btrim(given, ' '), ' +');
    if cardinality(fields) not in (5, 6) or given ~ '[[:cntrl:]]' then
        raise exception 'schedule "%" is neither an ISO 8601 repeat such as R/PT1H nor cron with 5 or 6 fields such as 0 8 * * MON', left(given, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    for i in 1 .. cardinality(fields) loop
        number := i + 6 - cardinality(fields);
        foreach field in array string_to_array(upper(fields[i]), ',') loop
            if field !~ format('^((\*|(%s)(-(%s))?)(/0*[1-9][0-9]*)?|%s)$', items[number], items[number], special[number]) then
                raise exception 'schedule "%" has "%" as its %, which cron does not know', left(given, 60), left(field, 20), names[number]
                    using errcode = 'invalid_parameter_value';
            end if;
        end loop;
    end loop;
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
    missed text default 'fire_once'
)
returns bigint
language plpgsql
as $$
#variable_conflict use_variable
declare
    new_key bigint := nextval('shardclock.timer_key_seq');
    first_due timestamptz := due_date;
    rule text[];
    count_wanted bigint := 1;
    anchor_number bigint := 0;
    refusal text;
begin
    if num_nonnulls(due_date, delay, schedule) <> 1 then
        raise exception 'give exactly one of due_date, delay and schedule, not %', num_nonnulls(due_date, delay, schedule)
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
        when target is distinct from 'log'
            then format('target "%s" is unknown: the only target is log', left(target, 60))
        when timer_type is null or timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then format('timer_type "%s" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER', left(timer_type, 60))
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
    perform shardclock.check_zone(zone);

    if delay is not null then
        first_due := shardclock.delay_from_now(delay, zone, 'delay');
    elsif schedule is not null then
        -- A schedule outlives its first timer_key; its name is how to cancel it later.
        name := coalesce(name, 'schedule-' || new_key);
        rule := regexp_match(
            schedule,
            '^R(-1|[0-9]{0,9})/(P(?=.)([0-9]{1,5}W)?([0-9]{1,6}D)?(T(?=[0-9])([0-9]{1,7}H)?([0-9]{1,9}M)?([0-9]{1,10}([.,][0-9]{1,9})?S)?)?)$'
        );
        if rule is not null and (zone = 'UTC' or rule[2] ~ '^PT') then
            if rule[2] !~ '[1-9]' then
                raise exception 'schedule "%" has a period of zero: it must be longer', left(schedule, 60)
                    using errcode = 'invalid_parameter_value';
            end if;
            -- Rn fires n times, R0 once, R and R-1 without end.
            count_wanted := case rule[1] when '' then -1 else rule[1]::bigint end;
            count_wanted := case when count_wanted = 0 then 1 else count_wanted end;
            first_due := shardclock.delay_from_now(rule[2], 'UTC', 'schedule');
        else
            perform shardclock.check_schedule(schedule);
            -- Whichever shard comes first plans it: it is due at once until then, and does not fire.
            first_due := now();
            count_wanted := -1;
            anchor_number := null;
        end if;
    end if;
    first_due := shardclock.check_due_date(first_due, 'due_date', due_date::text);

    insert into shardclock.timers (
        timer_key, process_instance_key, element_instance_key, due_date, anchor, anchor_occurrence, repetitions,
        tenant_id, timer_type, target, zone, missed, target_element_id, name, schedule, payload
    )
    values (
        new_key, process_instance_key, element_instance_key, first_due,
        case when schedule is not null then now() end, anchor_number, count_wanted,
        tenant_id, timer_type, target, zone, missed, target_element_id, name, schedule, payload
    )
    -- Not an exception block: that would spend a subtransaction on every timer of a bulk load.
    on conflict do nothing;
    if found then
        return new_key;
    end if;
    raise exception 'name "%" is taken by a pending timer of tenant "%": cancel or reschedule that one, or choose another name', left(name, 60), left(tenant_id, 60)
        using errcode = 'unique_violation';
end
$$;

comment on function shardclock.schedule_timer is 'Schedules one timer in the caller''s transaction and returns its timer_key.';

create or replace function shardclock.ended_as(timer_key bigint, name text, tenant_id text)
returns text
language sql
volatile -- A fresh snapshot: the caller has just waited for somebody else's commit.
as $$
    select coalesce(
        (
            select l.intent from shardclock.command_log l
            where l.timer_key = ended_as.timer_key and l.intent in ('TRIGGERED', 'CANCELED', 'SKIPPED')
            order by l.intent = 'SKIPPED'
            limit 1
        ),
        (
            select l.intent from shardclock.command_log l
            where l.tenant_id = ended_as.tenant_id and l.name = ended_as.name
                and (l.intent in ('TRIGGERED', 'CANCELED') or (l.intent = 'SKIPPED' and l.detail ->> 'policy' = 'skip'))
            order by l.recorded_at desc
            limit 1
        ),
        'UNKNOWN'
    )
$$;

-- A name leads to the pending timer that bears it now: a schedule's name, to another one after each firing.
create function shardclock.pending_key(timer_key bigint, name text, tenant_id text)
returns bigint
language sql
volatile
as $$
    select t.timer_key
    from shardclock.timers t
    where t.timer_key = pending_key.timer_key or (t.tenant_id = pending_key.tenant_id and t.name = pending_key.name)
$$;

create function shardclock.log_of(timers shardclock.timers, intent text, due_date timestamptz, detail jsonb)
returns void
language sql
as $$
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
    )
    values (
        (timers).timer_key, (timers).process_instance_key, (timers).element_instance_key, log_of.due_date,
        (timers).created_at, (timers).occurrence, log_of.intent, (timers).tenant_id, (timers).timer_type,
        (timers).target, (timers).target_element_id, (timers).name, (timers).schedule, (timers).payload,
        jsonb_strip_nulls(log_of.detail || jsonb_build_object('by', current_user))
    )
$$;

create function shardclock.cancel_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
as $$
    with gone as (
        delete from shardclock.timers t
        where t.timer_key = any (timer_keys)
        returning t as timer
    )
    select (g.timer).timer_key
    from gone g
    cross join lateral shardclock.log_of(
        g.timer, 'CANCELED', coalesce((g.timer).paused_due_date, (g.timer).due_date), jsonb_build_object('reason', reason)
    )
$$;

comment on function shardclock.cancel_timers is 'Cancels the pending and paused timers among these; returns their keys.';

create function shardclock.pause_timers(timer_keys bigint[], reason text default null)
returns setof bigint
language sql
as $$
    with paused as (
        -- The claim goes: whoever holds the row in memory finds itself fenced.
        update shardclock.timers t
        set paused_due_date = t.due_date, due_date = '9999-12-31 23:59:59.999998+00',
            claimed_by = null, claimed_until = null
        where t.timer_key = any (timer_keys) and t.paused_due_date is null
        returning t as timer
    )
    select (p.timer).timer_key
    from paused p
    cross join lateral shardclock.log_of(
        p.timer, 'PAUSED', (p.timer).paused_due_date, jsonb_build_object('reason', reason)
    )
$$;

comment on function shardclock.pause_timers is 'Keeps the pending timers among these from firing until they are resumed; returns their keys.';

create function shardclock.resume_timers(timer_keys bigint[])
returns setof bigint
language sql
as $$
    with resumed as (
        update shardclock.timers t
        set due_date = t.paused_due_date, paused_due_date = null
        where t.timer_key = any (timer_keys) and t.paused_due_date is not null
        returning t as timer
    )
    select (r.timer).timer_key
    from resumed r
    cross join lateral shardclock.log_of(r.timer, 'RESUMED', (r.timer).due_date, '{}')
$$;

comment on function shardclock.resume_timers is
    'Lets the paused timers among these go on; what fell due meanwhile is due now, under its missed-run policy. Returns their keys.';

-- To one due date or each by the same length. An operation's name makes it safe to send again.
create function shardclock.move_timers(timer_keys bigint[], new_due timestamptz, shift interval, operation text)
returns setof bigint
language sql
as $$
    with old as materialized (
        select t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
            and t.anchor_occurrence is not null
            and (
                operation is null
                or not exists (
                    select from shardclock.command_log l
                    where l.timer_key = t.timer_key and l.intent = 'RESCHEDULED' and l.detail ->> 'operation' = operation
                )
            )
        order by t.timer_key
        for update
    ),
    moved as (
        update shardclock.timers t
        set due_date = case
                when t.paused_due_date is not null then t.due_date
                else coalesce(new_due, shardclock.later(t.due_date, shift, t.zone))
            end,
            paused_due_date = case
                when t.paused_due_date is not null
                    then coalesce(new_due, shardclock.later(t.paused_due_date, shift, t.zone))
            end,
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from moved m
    join old on old.timer_key = (m.timer).timer_key
    cross join lateral shardclock.log_of(
        m.timer,
        'RESCHEDULED',
        old.due_date,
        jsonb_build_object('due_date', coalesce((m.timer).paused_due_date, (m.timer).due_date), 'operation', operation)
    )
$$;

create function shardclock.shift_length(shift text)
returns interval
language plpgsql
immutable
as $$
begin
    return case when shift ^@ '-' then -1 else 1 end
        * shardclock.parse_delay(regexp_replace(shift, '^[+-](?=P)', ''), 'shift');
end
$$;

create function shardclock.shift_timers(timer_keys bigint[], shift text, operation text default null)
returns setof bigint
language plpgsql
as $$
#variable_conflict use_variable
begin
    -- Sent again while it is still under way, it waits, and then finds its records: without a name it waits for nobody.
    perform pg_advisory_xact_lock(hashtextextended('shardclock.shift_timers ' || operation, 0));
    return query
    select shardclock.move_timers(timer_keys, null, shardclock.shift_length(shift), operation);
exception when datetime_field_overflow or check_violation then
    raise exception 'shift "%" is too long: it would move a timer out of the years 1 to 9999', left(shift, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

comment on function shardclock.shift_timers is
    'Moves the pending and paused timers among these by an ISO 8601 length such as PT1H or -P1D, on their own zones'' calendars; sent again under the same operation it moves none twice. Returns their keys.';

-- The pending occurrence gets its date from the new rule, and keeps its number: numbers go on.
create function shardclock.change_rules(timer_keys bigint[], schedule text, zone text, missed text)
returns setof bigint
language sql
as $$
    with old as materialized (
        select t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
        order by t.timer_key
        for update
    ),
    changed as (
        update shardclock.timers t
        set schedule = change_rules.schedule,
            zone = coalesce(change_rules.zone, t.zone),
            missed = coalesce(change_rules.missed, t.missed),
            name = coalesce(t.name, 'schedule-' || t.timer_key),
            anchor = now(),
            anchor_occurrence = null,
            repetitions = -1,
            due_date = case when t.paused_due_date is null then now() else t.due_date end,
            paused_due_date = case when t.paused_due_date is not null then now() end,
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from changed c
    join old on old.timer_key = (c.timer).timer_key
    cross join lateral shardclock.log_of(
        c.timer,
        'RESCHEDULED',
        old.due_date,
        jsonb_build_object('schedule', (c.timer).schedule, 'zone', (c.timer).zone, 'missed', (c.timer).missed)
    )
$$;

-- A plain timer's due date becomes now. A schedule gets one more occurrence, now; its grid and its next date stay.
create function shardclock.run_timers(timer_keys bigint[])
returns setof bigint
language sql
as $$
    with old as materialized (
        select t.timer_key, t.due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
            -- Not now(): by then somebody else may have made it due, after our transaction began.
            and t.due_date > clock_timestamp()
            and t.paused_due_date is null
            and t.anchor_occurrence is not null
        order by t.timer_key
        for update
    ),
    running as (
        update shardclock.timers t
        set due_date = now(),
            -- A repeat counts from a fixed anchor, so its numbers move on by one; cron goes on from its last date.
            anchor = case when t.schedule ^@ 'R' then t.anchor when t.schedule is not null then now() end,
            anchor_occurrence = t.anchor_occurrence + case when t.schedule ^@ 'R' then 1 else 0 end,
            repetitions = t.repetitions
                + case when t.schedule is not null and t.repetitions between 1 and 2147483646 then 1 else 0 end,
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from running r
    join old on old.timer_key = (r.timer).timer_key
    cross join lateral shardclock.log_of(
        r.timer, 'RESCHEDULED', old.due_date, jsonb_build_object('due_date', (r.timer).due_date, 'run_now', true)
    )
$$;

comment on function shardclock.run_timers is 'Makes the pending timers among these due now; a schedule runs once more and keeps its dates. Returns their keys.';

-- One timer, by its key or its name: found, changed, and if it has slipped away meanwhile, looked for again.
create function shardclock.change_timer(verb text, timer_key bigint, name text, tenant_id text, reason text)
returns text
language plpgsql
as $$
#variable_conflict use_variable
declare
    key bigint;
    state text;
begin
    perform shardclock.check_one_timer(timer_key, name);
    loop
        key := shardclock.pending_key(timer_key, name, tenant_id);
        exit when key is null;
        case verb
            when 'cancel' then perform shardclock.cancel_timers(array[key], reason);
            when 'pause' then perform shardclock.pause_timers(array[key], reason);
            when 'resume' then perform shardclock.resume_timers(array[key]);
            when 'run' then perform shardclock.run_timers(array[key]);
        end case;
        if found then
            return case verb
                when 'cancel' then 'CANCELED' when 'pause' then 'PAUSED' when 'resume' then 'PENDING' else 'RESCHEDULED'
            end;
        end if;
        select case when t.paused_due_date is null then 'PENDING' else 'PAUSED' end into state
        from shardclock.timers t
        where t.timer_key = key;
        if found then
            return state; -- there was nothing to change
        end if;
        -- It ended while we waited for its row. A schedule that fired has its next occurrence under the same name.
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

create or replace function shardclock.cancel_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    reason text default null
)
returns text
language sql
as $$
    select shardclock.change_timer('cancel', timer_key, name, tenant_id, reason)
$$;

comment on function shardclock.cancel_timer is
    'Cancels a pending timer. Returns CANCELED (now or before), TRIGGERED (too late: it had fired), SKIPPED or UNKNOWN.';

create function shardclock.pause_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    reason text default null
)
returns text
language sql
as $$
    select shardclock.change_timer('pause', timer_key, name, tenant_id, reason)
$$;

comment on function shardclock.pause_timer is
    'Keeps a pending timer from firing until it is resumed. Returns PAUSED (now or before), TRIGGERED, CANCELED, SKIPPED or UNKNOWN.';

create function shardclock.resume_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default'
)
returns text
language sql
as $$
    select shardclock.change_timer('resume', timer_key, name, tenant_id, null)
$$;

comment on function shardclock.resume_timer is
    'Lets a paused timer go on. Returns PENDING (now or before), TRIGGERED, CANCELED, SKIPPED or UNKNOWN.';

create function shardclock.run_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default'
)
returns text
language sql
as $$
    select shardclock.change_timer('run', timer_key, name, tenant_id, null)
$$;

comment on function shardclock.run_timer is
    'Makes a pending timer due now. Returns RESCHEDULED, PENDING (it was due already), PAUSED (resume it first), TRIGGERED, CANCELED, SKIPPED or UNKNOWN.';

create function shardclock.reschedule_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    due_date timestamptz default null,
    delay text default null,
    shift text default null,
    schedule text default null,
    zone text default null,
    missed text default null
)
returns text
language plpgsql
as $$
#variable_conflict use_variable
declare
    key bigint;
    new_due timestamptz := due_date;
    unplanned boolean;
begin
    perform shardclock.check_one_timer(timer_key, name);
    if num_nonnulls(due_date, delay, shift, schedule) <> 1 then
        raise exception 'say when: give exactly one of due_date, delay, shift and schedule'
            using errcode = 'invalid_parameter_value';
    end if;
    if schedule is null and num_nonnulls(zone, missed) > 0 then
        raise exception 'zone and missed go with a schedule' using errcode = 'invalid_parameter_value';
    end if;
    if missed is not null and missed not in ('fire_once', 'fire_all', 'skip') then
        raise exception 'missed "%" is unknown: use fire_once, fire_all or skip', left(missed, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if schedule is not null then
        perform shardclock.check_zone(coalesce(zone, 'UTC')), shardclock.check_schedule(schedule);
    end if;
    if due_date is not null then
        perform shardclock.check_due_date(due_date, 'due_date', due_date::text);
    end if;
    loop
        key := shardclock.pending_key(timer_key, name, tenant_id);
        exit when key is null;
        if schedule is not null then
            perform shardclock.change_rules(array[key], schedule, zone, missed);
        elsif shift is not null then
            perform shardclock.shift_timers(array[key], shift);
        else
            if delay is not null then
                select shardclock.delay_from_now(delay, t.zone, 'delay') into new_due
                from shardclock.timers t
                where t.timer_key = key;
            end if;
            perform shardclock.move_timers(array[key], new_due, null, null);
        end if;
        if found then
            return 'RESCHEDULED';
        end if;
        select t.anchor_occurrence is null into unplanned from shardclock.timers t where t.timer_key = key;
        if unplanned then
            raise exception 'timer % has no date yet: a running cluster plans its schedule, unless it is paused; try again then', key
                using errcode = 'object_not_in_prerequisite_state';
        end if;
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

comment on function shardclock.reschedule_timer is
    'Moves a pending timer to another due date, by a shift, or to another rule. Returns RESCHEDULED, TRIGGERED (it had fired), CANCELED, SKIPPED or UNKNOWN.';

create function shardclock.cancel_process_instance(process_instance_key bigint, reason text default null)
returns bigint
language plpgsql
as $$
#variable_conflict use_variable
declare
    keys bigint[];
    cancelled bigint := 0;
begin
    loop
        keys := array(
            select t.timer_key from shardclock.timers t where t.process_instance_key = cancel_process_instance.process_instance_key
        );
        exit when keys = '{}';
        -- What fired while we waited for its row is not there any more, but its next occurrence may be: look again.
        cancelled := cancelled + (select count(*) from shardclock.cancel_timers(keys, reason));
    end loop;
    return cancelled;
end
$$;

comment on function shardclock.cancel_process_instance is 'Cancels all timers of a process instance, pending and paused; returns how many.';
