-- What anyone may call inside their own transaction: roll it back and it never was.

create function shardclock.parse_delay(given text, field text)
returns interval
language plpgsql
immutable
as $$
declare
    fraction text[] := regexp_match(given, 'T.*[0-9][.,]([0-9]+)([HMS])$');
    whole text := case when fraction is null then given else regexp_replace(given, '[.,][0-9]+([HMS])$', '\1') end;
begin
    if length(given) > 100
        or whole !~ '^P(?=.)([0-9]{1,9}Y)?([0-9]{1,9}M)?([0-9]{1,9}W)?([0-9]{1,9}D)?(T(?=[0-9])([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,12}S)?)?$'
    then
        raise exception '% "%" is not an ISO 8601 duration: write it like PT15M or P3DT12H', field, left(given, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    -- Finer than a microsecond is rounded up, so that a timer is never early.
    return whole::interval + coalesce(
        ceil(
            ('0.' || fraction[1])::numeric
            * case fraction[2] when 'H' then 3600000000 when 'M' then 60000000 else 1000000 end
        ) * interval '1 microsecond',
        interval '0'
    );
exception when interval_field_overflow or datetime_field_overflow then
    raise exception '% "%" is too long: it must end before year 10000', field, left(given, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

create function shardclock.after(delay interval, given text, field text)
returns timestamptz
language plpgsql
stable
as $$
begin
    return (now() at time zone 'UTC' + delay) at time zone 'UTC';
exception when datetime_field_overflow then
    raise exception '% "%" is too long: it must end before year 10000', field, left(given, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

create function shardclock.check_due_date(due_date timestamptz, field text, given text)
returns timestamptz
language plpgsql
immutable
as $$
begin
    if due_date >= '0001-01-01 00:00:00+00' and due_date < '9999-12-31 23:59:59.999999+00' then
        return due_date;
    end if;
    raise exception '% "%" is out of range: a timer is due in the years 1 to 9999', field, left(given, 60)
        using errcode = 'invalid_parameter_value';
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
    zone text default 'UTC'
)
returns bigint
language plpgsql
as $$
#variable_conflict use_variable
declare
    new_key bigint := nextval('shardclock.timer_key_seq');
    first_due timestamptz;
    rule text[];
    period interval;
    count_wanted bigint := 1;
    refusal text;
begin
    if num_nonnulls(due_date, delay, schedule) <> 1 then
        raise exception 'give exactly one of due_date, delay and schedule, not %', num_nonnulls(due_date, delay, schedule)
            using errcode = 'invalid_parameter_value';
    end if;

    refusal := case
        when coalesce(length(tenant_id), 0) not between 1 and 200
            then format('tenant_id "%s" must have 1 to 200 characters', left(tenant_id, 60))
        when tenant_id ~ '[[:cntrl:]]' or name ~ '[[:cntrl:]]'
            then 'tenant_id and name must have no control characters'
        when length(name) not between 1 and 200
            then format('name "%s" must have 1 to 200 characters', left(name, 60))
        when length(target_element_id) not between 1 and 200
            then format('target_element_id "%s" must have 1 to 200 characters', left(target_element_id, 60))
        when target is distinct from 'log'
            then format('target "%s" is unknown: the only target is log', left(target, 60))
        when timer_type is null or timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then format('timer_type "%s" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER', left(timer_type, 60))
        when zone is distinct from 'UTC'
            then format('zone "%s" is unknown: the only zone is UTC', left(zone, 60))
        when octet_length(payload::text) > 65536
            then format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(payload::text))
    end;
    if refusal is not null then
        raise exception '%', refusal using errcode = 'invalid_parameter_value';
    end if;

    if schedule is not null then
        rule := regexp_match(
            schedule,
            '^R(-1|[0-9]{0,10})/(P(?=.)([0-9]+W)?([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+([.,][0-9]+)?S)?)?)$'
        );
        if rule is null then
            raise exception 'schedule "%" is not a repeat of fixed length: write it like R/PT1H or R5/P1D (weeks, days, hours, minutes, seconds)', left(schedule, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        -- As the table's CHECK has it.
        if rule[2] !~ '^P([0-9]{1,5}W)?([0-9]{1,6}D)?(T([0-9]{1,7}H)?([0-9]{1,9}M)?([0-9]{1,10}([.,][0-9]{1,9})?S)?)?$' then
            raise exception 'schedule "%" has too many digits: a period has at most 5 of weeks, 6 of days, 7 of hours, 9 of minutes, 10 of seconds and 9 after the point', left(schedule, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        period := shardclock.parse_delay(rule[2], 'schedule');
        if period <= interval '0' then
            raise exception 'schedule "%" has a period of zero: it must be longer', left(schedule, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        -- Rn fires n times, R0 once, R and R-1 without end.
        count_wanted := case rule[1] when '' then -1 when '0' then 1 else rule[1]::bigint end;
        count_wanted := case when count_wanted = 0 then 1 else count_wanted end;
        if count_wanted > 2147483647 then
            raise exception 'schedule "%" repeats too often: the count is at most 2147483647 (leave it out to repeat without end)', left(schedule, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        -- A schedule outlives its first timer_key; its name is how to cancel it later.
        name := coalesce(name, 'schedule-' || new_key);
    end if;

    first_due := case
        when delay is not null then shardclock.after(shardclock.parse_delay(delay, 'delay'), delay, 'delay')
        when schedule is not null then shardclock.after(period, schedule, 'schedule')
        else due_date
    end;
    first_due := shardclock.check_due_date(
        first_due,
        case when delay is not null then 'delay' when schedule is not null then 'schedule' else 'due_date' end,
        coalesce(delay, schedule, due_date::text)
    );

    insert into shardclock.timers (
        timer_key, process_instance_key, element_instance_key, due_date, anchor, repetitions,
        tenant_id, timer_type, target, zone, target_element_id, name, schedule, payload
    )
    values (
        new_key, process_instance_key, element_instance_key, first_due,
        case when schedule is not null then now() end, count_wanted,
        tenant_id, timer_type, target, zone, target_element_id, name, schedule, payload
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

create function shardclock.ended_as(timer_key bigint, name text, tenant_id text)
returns text
language sql
volatile -- A fresh snapshot: the caller has just waited for somebody else's commit.
as $$
    select coalesce(
        (
            select l.intent from shardclock.command_log l
            where l.timer_key = ended_as.timer_key and l.intent in ('TRIGGERED', 'CANCELED')
            limit 1
        ),
        (
            select l.intent from shardclock.command_log l
            where l.tenant_id = ended_as.tenant_id and l.name = ended_as.name and l.intent in ('TRIGGERED', 'CANCELED')
            order by l.recorded_at desc
            limit 1
        ),
        'UNKNOWN'
    )
$$;

create function shardclock.check_one_timer(timer_key bigint, name text)
returns void
language plpgsql
immutable
as $$
begin
    if num_nonnulls(timer_key, name) <> 1 then
        raise exception 'say which timer: give either timer_key or name (with its tenant_id)'
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

create function shardclock.cancel_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    reason text default null
)
returns text
language plpgsql
as $$
#variable_conflict use_variable
begin
    perform shardclock.check_one_timer(timer_key, name);
    loop
        with gone as (
            delete from shardclock.timers t
            where t.timer_key = cancel_timer.timer_key
                or (t.tenant_id = cancel_timer.tenant_id and t.name = cancel_timer.name)
            returning t.*
        )
        insert into shardclock.command_log (
            timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence,
            intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
        )
        select
            g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence,
            'CANCELED', g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule, g.payload,
            jsonb_strip_nulls(jsonb_build_object('reason', reason, 'by', current_user))
        from gone g;
        if found then
            return 'CANCELED';
        end if;
        -- A schedule that fired while we waited for its row has its next occurrence under the same name:
        -- this statement sees it, the one above could not.
        exit when timer_key is not null or not exists (
            select from shardclock.timers t
            where t.tenant_id = cancel_timer.tenant_id and t.name = cancel_timer.name
        );
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

comment on function shardclock.cancel_timer is
    'Cancels a pending timer. Returns CANCELED (now or before), TRIGGERED (too late: it had fired) or UNKNOWN.';

create function shardclock.reschedule_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    due_date timestamptz default null,
    delay text default null
)
returns text
language plpgsql
as $$
#variable_conflict use_variable
declare
    new_due timestamptz;
begin
    perform shardclock.check_one_timer(timer_key, name);
    if num_nonnulls(due_date, delay) <> 1 then
        raise exception 'say when: give either due_date or delay' using errcode = 'invalid_parameter_value';
    end if;
    new_due := shardclock.check_due_date(
        coalesce(due_date, shardclock.after(shardclock.parse_delay(delay, 'delay'), delay, 'delay')),
        case when delay is null then 'due_date' else 'delay' end,
        coalesce(delay, due_date::text)
    );
    loop
        with old as materialized (
            select t.timer_key, t.due_date
            from shardclock.timers t
            where t.timer_key = reschedule_timer.timer_key
                or (t.tenant_id = reschedule_timer.tenant_id and t.name = reschedule_timer.name)
            for update
        ), moved as (
            -- The claim goes with the old due date: whoever holds the row in memory finds itself fenced.
            update shardclock.timers t
            set due_date = new_due, claimed_by = null, claimed_until = null
            from old
            where t.timer_key = old.timer_key
            returning t.*, old.due_date as old_due
        )
        insert into shardclock.command_log (
            timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence,
            intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
        )
        select
            m.timer_key, m.process_instance_key, m.element_instance_key, m.old_due, m.created_at, m.occurrence,
            'RESCHEDULED', m.tenant_id, m.timer_type, m.target, m.target_element_id, m.name, m.schedule, m.payload,
            jsonb_build_object('due_date', m.due_date, 'by', current_user)
        from moved m;
        if found then
            return 'RESCHEDULED';
        end if;
        exit when timer_key is not null or not exists (
            select from shardclock.timers t
            where t.tenant_id = reschedule_timer.tenant_id and t.name = reschedule_timer.name
        );
    end loop;
    return shardclock.ended_as(timer_key, name, tenant_id);
end
$$;

comment on function shardclock.reschedule_timer is
    'Moves a pending timer to another due date. Returns RESCHEDULED, TRIGGERED (it had fired), CANCELED or UNKNOWN.';
