-- Returns the refusal of an ISO 8601 repeat.
--
-- in:    given text, zone text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.repeat_refusal(given text, zone text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    part constant text := '((?:[^][/]|[[][^][]*[]])*)';
    shown constant text := shardclock.shown(given);
    m text[] := case
        when length(given) <= 200 then regexp_match(given, '^R([+-]?[0-9]+)?/(?:' || part || '/)?' || part || '$')
    end;
    refusal text;
    period text;
    moments text[];
    found record;
    first_at timestamptz;
    last_at timestamptz;
begin
    if coalesce(m[3], '') = '' then
        return coalesce(
            shardclock.at_sign_refusal(given),
            shown || ' is not an ISO 8601 repeat; write R/PT1H, R3/PT1H for three times, or R/2026-01-31T08:00:00Z/P1D '
                'from a start on'
        );
    end if;
    if m[1] <> '-1' and (m[1] like '-%' or m[1]::numeric > 2147483647) then
        return format(
            '%s has the count %s; write R0 to R2147483647, or R without end', shown,
            case when abs(m[1]::numeric) < 2::numeric ^ 180 then m[1]::numeric::text else 'an integer of over 50 digits' end
        );
    end if;
    refusal := shardclock.brackets_refusal(given, zone);
    if refusal is not null then
        return refusal;
    end if;
    zone := coalesce(substring(given from '[[]([^][]*)[]]'), zone);
    if coalesce(m[2], '') = '' or ltrim(m[2], '+-') ~* '^P' then
        period := coalesce(nullif(m[2], ''), m[3]);
        moments := case when period = m[2] then array[m[3]] else '{}' end;
    else
        period := case when ltrim(m[3], '+-') ~* '^P' then m[3] end;
        moments := case when period is null then array[m[2], m[3]] else array[m[2]] end;
    end if;
    for i in 1 .. cardinality(moments) loop
        -- Read the parts in the order of the text: a period comes after a start and before an end.
        exit when i = 1 and period = m[2] and shardclock.period_refusal(given, period) is not null;
        select * into found from shardclock.judged_moment(moments[i], zone);
        if found.refusal is not null then
            return format('%s has no valid start or end: %s', shown, found.refusal);
        end if;
        if shardclock.clock_of(found.moment, zone) not between '0001-01-01' and '9999-12-31 23:59:59.999999' then
            return format(
                '%s leaves the years 0001 to 9999 on the clock of %s; choose another start or end', shown, zone
            );
        end if;
        first_at := coalesce(first_at, found.moment);
        last_at := found.moment;
    end loop;
    if period is null then
        return case
            when last_at <= first_at
                then shown || ' ends before or at its beginning; its end must come after its start, by one period'
            else shardclock.frequency_refusal(given, m[1], extract(epoch from last_at - first_at))
        end;
    end if;
    refusal := coalesce(
        shardclock.period_refusal(given, period),
        -- Round the period up to microseconds, and limit the digits of its average length in days.
        (
            select shardclock.frequency_refusal(given, m[1], ceil(round(d.average_days * 86400000000, 6)) / 1000000)
            from shardclock.judged_duration(period) as d
        )
    );
    if refusal is not null then
        return refusal;
    end if;
    -- Without a start, the rule first occurs one period from now. With a past start, the rule first occurs one period
    -- after that start.
    if moments = '{}' or period = m[2] or first_at < now() then
        begin
            first_at := shardclock.later(
                case when moments = '{}' or period = m[2] then now() else first_at end,
                shardclock.parse_delay(period, 'schedule'), zone
            );
        exception when datetime_field_overflow or interval_field_overflow or invalid_parameter_value then
            return shardclock.never_occurs(given);
        end;
    end if;
    return case
        when first_at > least(case when period = m[2] then last_at end, '9999-12-31 23:59:59.999997+00')
            then shardclock.never_occurs(given)
    end;
end
$$;

comment on function shardclock.repeat_refusal is
    'Internal: Returns the refusal of an ISO 8601 repeat; null: it is valid.';
