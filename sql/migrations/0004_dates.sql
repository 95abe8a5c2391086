-- When a timer is due: dates, delays, zones, and a first check of schedules.

create table shardclock.zones (
    zone text not null,

    constraint zones_pkey primary key (zone)
);

insert into shardclock.zones (zone)
select name
from pg_timezone_names
where name !~ '^(posix|right)/' and name not in ('localtime', 'posixrules', 'Factory')
on conflict do nothing;

comment on table shardclock.zones is
    'The IANA time zones that this Postgres knows. A search here is fast, and finds no abbreviations.';

create function shardclock.check_due_date(due_date timestamptz, field text, given text)
returns timestamptz
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    -- The last moment but one is the due_date of paused timers.
    if due_date >= '0001-01-01 00:00:00+00' and due_date < '9999-12-31 23:59:59.999998+00' then
        return due_date;
    end if;
    raise exception '% "%" is out of range: a timer is due in the years 1 to 9999', field, left(given, 60)
        using errcode = 'invalid_parameter_value';
end
$$;

-- Like timers.duration: turns small letters into capitals, and drops a plus sign before the P or before a number.
create function shardclock.plain_length(given text)
returns text
language sql
immutable
begin atomic
    select regexp_replace(
        translate(given, 'pymwdths', 'PYMWDTHS'), '^\+(?=P)|(?<=[PYMWDTH])\+(?=[0-9])', '', 'g'
    );
end;

create function shardclock.parse_delay(given text, field text)
returns interval
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    form constant text := '^P(?=.)([0-9]{1,9}Y)?([0-9]{1,9}M)?([0-9]{1,9}W)?([0-9]{1,9}D)?'
        '(T(?=[0-9])([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,12}S)?)?$';
    plain text := shardclock.plain_length(given);
    fraction text[] := regexp_match(plain, 'T.*[0-9][.,]([0-9]+)([HMS])$');
    whole text := case when fraction is null then plain else regexp_replace(plain, '[.,][0-9]+([HMS])$', '\1') end;
begin
    if length(given) > 100 or whole !~ form then
        if length(given) <= 100 and whole ~ '-' and replace(whole, '-', '') ~ form then
            raise exception '% "%" has a minus sign, and nothing is due before now: write it without', field,
                left(given, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        raise exception '% "%" is not an ISO 8601 duration: write it like PT15M or P3DT12H', field, left(given, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    -- Fractions finer than a microsecond are rounded up, so that a timer is never early.
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

create function shardclock.shift_length(shift text)
returns interval
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    return case when shift ^@ '-' then -1 else 1 end
        * shardclock.parse_delay(regexp_replace(shift, '^-(?=[Pp])', ''), 'shift');
end
$$;

create function shardclock.check_zone(zone text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    if zone is distinct from 'UTC' and not exists (select from shardclock.zones z where z.zone = check_zone.zone) then
        raise exception 'zone "%" is unknown: write an IANA name such as UTC or Europe/Berlin', left(zone, 60)
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

-- Like timers.zone.agreed_zone: returns the zone that a schedule names in brackets, or else the zone given beside it.
-- UTC or null beside it contradicts no zone in brackets.
create function shardclock.agreed_zone(schedule text, beside text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    named constant text[] := array(
        select distinct m.match[1] collate "C"
        from regexp_matches(schedule, '\[([^][]*)\]', 'g') as m (match)
        order by 1
    );
begin
    if named = '{}' then
        return beside;
    end if;
    perform shardclock.check_zone(named[1]);
    if cardinality(named) > 1 then
        raise exception 'schedule "%" names the time zones % and %: write only one', left(schedule, 60), named[1],
            left(named[2], 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if beside not in (named[1], 'UTC') then
        raise exception 'schedule "%" names the time zone %, but its zone is %: give only one', left(schedule, 60),
            named[1], beside
            using errcode = 'invalid_parameter_value';
    end if;
    return named[1];
end
$$;

-- The `timezone` setting reads a name always as a zone, never as an abbreviation. When the function ends, the setting
-- is as it was before.
create function shardclock.named_clock(moment timestamptz, zone text)
returns timestamp
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
as $$
begin
    perform set_config('timezone', zone, true);
    return moment::timestamp;
end
$$;

-- What a zone's clock shows at a moment. `at time zone` reads a name as an abbreviation first: then CET is one hour
-- from UTC in summer, too. No abbreviation has a slash; a zone's name without a slash costs a few microseconds more.
create function shardclock.clock_of(moment timestamptz, zone text)
returns timestamp
language sql
immutable
begin atomic
    select case
        when zone = 'UTC' or position('/' in zone) > 0 then moment at time zone zone
        else shardclock.named_clock(moment, zone)
    end;
end;

-- Like timers.zone.to_utc: a local time that the clock skips moves forward by the length of the gap; if a local time
-- comes twice, this is the first one.
create function shardclock.to_utc(local timestamp, zone text)
returns timestamptz
language sql
immutable
begin atomic
    select case
        when zone = 'UTC' then local at time zone 'UTC'
        else (
            with clock as (
                -- No zone is more than 15 hours from UTC. So if the clock changes near this time, these two moments are
                -- before and after the change.
                select
                    local - (shardclock.clock_of(t.before, zone) - (t.before at time zone 'UTC')) as by_offset_before,
                    local - (shardclock.clock_of(t.after, zone) - (t.after at time zone 'UTC')) as by_offset_after
                from (
                    select
                        (local - interval '26 hours') at time zone 'UTC' as before,
                        (local + interval '26 hours') at time zone 'UTC' as after
                ) t
            )
            select coalesce(
                (
                    select min(c.moment)
                    from clock
                    cross join lateral (
                        values (by_offset_before at time zone 'UTC'), (by_offset_after at time zone 'UTC')
                    ) as c (moment)
                    where shardclock.clock_of(c.moment, zone) = local
                ),
                (select by_offset_before at time zone 'UTC' from clock)
            )
        )
    end;
end;

-- Like timers.duration.later: adds months and days on the zone's clock, then the rest as elapsed time.
create function shardclock.later(moment timestamptz, length interval, zone text)
returns timestamptz
language sql
immutable
begin atomic
    select case
        when coalesce(zone, 'UTC') = 'UTC' then (moment at time zone 'UTC' + length) at time zone 'UTC'
        when c.calendar = interval '0' then moment + length
        else shardclock.to_utc(shardclock.clock_of(moment, zone) + c.calendar, zone) + (length - c.calendar)
    end
    from (
        select make_interval(
            years => extract(year from length)::integer,
            months => extract(month from length)::integer,
            days => extract(day from length)::integer
        ) as calendar
    ) c;
end;

create function shardclock.delay_from_now(delay text, zone text, field text)
returns timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
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

-- Refuses texts that can't be a schedule. The shard that plans a schedule parses it (timers.schedule). A few wrong ones
-- pass this check (a 30 February): the shard pauses these, with the reason in the log.
create function shardclock.check_schedule(given text)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    period constant text := '\+?[Pp](?=.)(\+?[0-9]{1,5}[Yy])?(\+?[0-9]{1,6}[Mm])?(\+?[0-9]{1,6}[Ww])?'
        '(\+?[0-9]{1,7}[Dd])?([Tt](?=\+?[0-9])(\+?[0-9]{1,8}[Hh])?(\+?[0-9]{1,9}[Mm])?(\+?[0-9]{1,12}[Ss])?'
        '(\+?[0-9]+[.,][0-9]+[HMShms])?)?';
    moment constant text := '[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?'
        '([Zz]|[+-][0-9]{2}(:?[0-9]{2})?)?(\[[A-Za-z0-9_+/-]+\])?';
    months constant text := 'JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC';
    days constant text := 'MON|TUE|WED|THU|FRI|SAT|SUN';
    names constant text[] := array['second', 'minute', 'hour', 'day-of-month', 'month', 'day-of-week'];
    -- The forms of one item of each field, before its step.
    items constant text[] := array[
        '0*[0-5]?[0-9]', '0*[0-5]?[0-9]', '0*([01]?[0-9]|2[0-3])', '0*([1-9]|[12][0-9]|3[01])',
        '0*([1-9]|1[0-2])|' || months, '0*[0-7]|' || days
    ];
    special constant text[] := array[
        '(?!)', '(?!)', '(?!)', 'L|LW|L-0*([1-9]|[12][0-9]|30)|0*([1-9]|[12][0-9]|3[01])W', '(?!)',
        format('(0*[0-7]|%s)(L|#0*[1-5])', days)
    ];
    fields text[];
    field text;
    number integer;
begin
    if length(given) > 200 then
        raise exception 'schedule "%" is too long: it has at most 200 characters', left(given, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    if given ~ '^R' then
        if given !~ format(
            '^R(-1|\+?[0-9]{1,10})?/(/?%s|%s/(%s|%s)|%s/%s)$', period, moment, period, moment, period, moment
        ) then
            raise exception 'schedule "%" is not an ISO 8601 repeat: '
                'write it like R/PT1H, R5/P1D, R/2031-01-31T08:00:00Z/P1M or '
                    'R/PT1H/2031-01-31T08:00:00Z', left(given, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        return;
    end if;
    if given ~* '^ *@(yearly|annually|monthly|weekly|daily|midnight|hourly) *$' then
        return;
    end if;
    fields := regexp_split_to_array(btrim(given, ' '), ' +');
    if cardinality(fields) not in (5, 6) or given ~ '[[:cntrl:]]' then
        raise exception 'schedule "%" is neither an ISO 8601 repeat such as R/PT1H '
            'nor cron with 5 or 6 fields such as 0 8 * * MON', left(given, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    for i in 1 .. cardinality(fields) loop
        number := i + 6 - cardinality(fields);
        continue when fields[i] = '?' and number in (4, 6) and cardinality(fields) = 6;
        foreach field in array string_to_array(upper(fields[i]), ',') loop
            if field !~ format(
                '^((\*|(%s)(-(%s))?)(/0*[1-9][0-9]*)?|%s)$', items[number], items[number], special[number]
            ) then
                raise exception 'schedule "%" has "%" as its %, which %',
                    left(given, 60), left(field, 20), names[number],
                    case field
                        when '?' then 'only stands alone in a day field of six-field cron'
                        else 'cron does not know'
                    end
                    using errcode = 'invalid_parameter_value';
            end if;
        end loop;
    end loop;
end
$$;
