-- Returns the days of a month that an item of a cron rule selects, as bits.
--
-- `length` is the number of the month's days. `begins_on` is the weekday of the first day; 0 is Monday.
--
-- in:    item text, bits bigint, is_weekday boolean, begins_on integer, length integer
-- out:   bigint
-- locks: nothing
-- index: none
create or replace function shardclock.cron_days(item text, bits bigint, is_weekday boolean, begins_on integer, length integer)
returns bigint
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    day constant integer := case
        when item in ('L', 'LW') then length
        when item ~ '^L-' then length - substr(item, 3)::integer
        when item ~ '^[0-9]+W$' then rtrim(item, 'W')::integer
    end;
    weekday integer;
    picked bigint := 0;
begin
    if not is_weekday then
        if day is null then
            return bits & ((1::bigint << (length + 1)) - 2);
        end if;
        if day < 1 or day > length then
            return 0;
        end if;
        if item !~ 'W$' then
            return 1::bigint << day;
        end if;
        weekday := (begins_on + day - 1) % 7;
        return 1::bigint << case
            when weekday = 5 then case when day > 1 then day - 1 else day + 2 end
            when weekday = 6 then case when day < length then day + 1 else day - 2 end
            else day
        end;
    end if;
    for d in 1 .. length loop
        -- In cron 0 is Sunday.
        weekday := (begins_on + d) % 7;
        if (bits >> weekday) & 1 = 1 or (weekday = 0 and (bits >> 7) & 1 = 1) then
            if item ~ 'L$' then
                picked := case when d > length - 7 then 1::bigint << d else picked end;
            elsif item !~ '#' or (d - 1) / 7 + 1 = substring(item from '#([0-9]+)$')::integer then
                picked := picked | (1::bigint << d);
            end if;
        end if;
    end loop;
    return picked;
end
$$;

comment on function shardclock.cron_days is
    'Internal: Returns the days of a month that an item of a cron rule selects, as bits.';
