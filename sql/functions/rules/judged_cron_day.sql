-- Checks an item of a day field, which may also be L, LW, L-3, 15W, 5L or 5#2.
--
-- in:    item text, is_weekday boolean
-- out:   refusal text, bits bigint
-- locks: nothing
-- index: none
create or replace function shardclock.judged_cron_day(item text, is_weekday boolean, out refusal text, out bits bigint)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    m text[];
    names constant text[] := case when is_weekday then '{SUN,MON,TUE,WED,THU,FRI,SAT}'::text[] else '{}' end;
begin
    if not is_weekday then
        if item = 'LW' or item = 'L' then
            return;
        end if;
        m := regexp_match(item, '^L-([0-9]+)$');
        if m is not null then
            if m[1]::numeric not between 1 and 30 then
                refusal := format('has the day-of-month %s; write L-1 to L-30', shardclock.shown(item));
            end if;
            return;
        end if;
        m := regexp_match(item, '^([0-9]+)W$');
        if m is not null then
            if m[1]::numeric not between 1 and 31 then
                refusal := format('has the day-of-month %s; write 1 to 31', shardclock.shown(m[1]));
            end if;
            return;
        end if;
        select j.refusal, j.bits into refusal, bits
        from shardclock.judged_cron_item(item, 'day-of-month', 1, 31, 1, '{}', ', L, LW, L-3 or 15W') j;
        return;
    end if;
    m := regexp_match(item, '^([0-9]+|[A-Z]{3})(?:L|#([0-9]+))$');
    select j.refusal, j.bits into refusal, bits
    from shardclock.judged_cron_item(
        coalesce(m[1], item), 'day-of-week', 0, 7, 0, names, ', 5L or 5#2'
    ) j;
    if refusal is null and m[2]::numeric not between 1 and 5 then
        refusal := format('has the day-of-week %s; write #1 to #5', shardclock.shown(item));
    end if;
end
$$;

comment on function shardclock.judged_cron_day is
    'Internal: Returns the refusal of an item of a cron day field; otherwise the numbers of the item, as bits.';
