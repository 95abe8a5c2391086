-- Checks the text of a moment, and returns the moment.
--
-- in:    given text, zone text
-- out:   refusal text, moment timestamptz
-- locks: nothing
-- index: none
create or replace function shardclock.judged_moment(given text, zone text, out refusal text, out moment timestamptz)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    m text[] := case when length(given) <= 128 then regexp_match(
        given,
        '^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([01][0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9])(?:[.,]([0-9]+))?)?'
        '([Zz]|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?([[][^][]*[]])?$'
    ) end;
    said_zone text := case when m[9] is null then zone else substr(m[9], 2, length(m[9]) - 2) end;
    local timestamp;
    shift interval;
    by_zone timestamptz;
begin
    if m is null then
        refusal := coalesce(
            shardclock.at_sign_refusal(given),
            shardclock.shown(given)
                || ' is not an ISO 8601 date-time of the years 0001 to 9999; write it like 2026-01-31T08:00:00Z'
        );
        return;
    end if;
    if m[8] is null and m[9] is null and zone = 'UTC' then
        refusal := shardclock.shown(given)
            || ' has no offset from UTC; add one, such as Z or +01:00, or a zone such as [Europe/Berlin]';
        return;
    end if;
    begin
        local := make_timestamp(
            m[1]::integer, m[2]::integer, m[3]::integer, m[4]::integer, m[5]::integer, coalesce(m[6], '0')::integer
        );
    exception when datetime_field_overflow then
        refusal := shardclock.shown(given)
            || ' names a day that is not in the calendar of the years 0001 to 9999; choose another';
        return;
    end;
    shift := case
        when m[8] in ('Z', 'z') then interval '0'
        else make_interval(hours => substr(m[8], 2, 2)::integer, mins => right('00' || ltrim(substr(m[8], 4), ':'), 2)::integer)
            * (left(m[8], 1) || '1')::integer
    end;
    moment := (local - shift) at time zone 'UTC';
    if m[8] is null or m[9] is not null then
        by_zone := shardclock.to_utc(local, said_zone);
    end if;
    if m[8] is null then
        moment := by_zone;
    elsif m[9] is not null and m[8] not in ('Z', 'z')
        and moment <> by_zone and shardclock.clock_of(moment, said_zone) <> local
    then
        shift := local - by_zone at time zone 'UTC';
        refusal := format(
            '%s has another offset than %s at that time; write %s, or none', shardclock.shown(given), said_zone,
            case when shift < interval '0' then '-' else '+' end || to_char(
                case when shift < interval '0' then -shift else shift end,
                case when extract(second from shift) = 0 then 'HH24:MI' else 'HH24:MI:SS' end
            )
        );
        return;
    end if;
    moment := moment + ceil(('0.' || coalesce(m[7], '0'))::numeric * 1000000) * interval '1 microsecond';
    if moment not between '0001-01-01 00:00:00.000001+00' and '9999-12-31 23:59:59.999997+00' then
        refusal := shardclock.shown(given) || ' falls outside the years 0001 to 9999 in UTC; choose a moment within';
    end if;
end
$$;

comment on function shardclock.judged_moment is
    'Internal: Returns the refusal of a moment''s text; otherwise the moment.';
