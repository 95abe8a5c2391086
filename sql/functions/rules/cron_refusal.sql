-- Returns the refusal of a cron rule; null: the rule is valid.
--
-- in:    given text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.cron_refusal(given text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    shown constant text := shardclock.shown(given);
    months constant text[] := '{JAN,FEB,MAR,APR,MAY,JUN,JUL,AUG,SEP,OCT,NOV,DEC}';
    nicknames constant text[] := '{@yearly,@annually,@monthly,@weekly,@daily,@midnight,@hourly}';
    m text[] := regexp_match(given, '^[[:space:]]*((?:CRON_)?TZ=([^[:space:]]*))');
    words text[];
    is_spring boolean;
    found record;
    item text;
    chosen_months bigint := 0;
    days bigint;
    weekdays bigint;
begin
    if m is not null then
        return format('%s names a zone; leave %s out, and give %s as zone', shown, m[1], shardclock.shown(m[2]));
    end if;
    if length(given) > 200 then
        return shown || ' is longer than 200 characters; write a shorter cron rule';
    end if;
    if given collate "C" ~ '[^ -~]' then
        return shown || ' contains a character that cron does not use; write ASCII letters, digits, signs and spaces '
            'on one line';
    end if;
    words := regexp_split_to_array(upper(btrim(given, ' ')), ' +');
    if words[1] ^@ '@' then
        return case
            when array_to_string(words, ' ') <> all (array(select upper(n) from unnest(nicknames) n))
                then format(
                    '%s is not a nickname that we know; write one of %s', shown, array_to_string(nicknames, ', ')
                )
        end;
    end if;
    if words = '{""}' then
        words := '{}';
    end if;
    if cardinality(words) not in (5, 6) then
        return shown || case
            when cardinality(words) = 7
                then ' has seven fields, the seventh being Quartz''s year; write six, without the year'
            else format(
                ' has %s field%s; write six (second minute hour day-of-month month day-of-week) or five (without the '
                'second)', cardinality(words), case when cardinality(words) = 1 then '' else 's' end
            )
        end;
    end if;
    is_spring := cardinality(words) = 6;
    words := case when is_spring then words else array['0'] || words end;
    for found in
        select j.refusal, f.number, j.bits
        from (
            -- Read the fields in the same order as the Python code, so that both report the same fault first.
            values (1, 'second', 0, 59, 0, '{}'::text[], ''), (2, 'minute', 0, 59, 0, '{}', ''),
                (3, 'hour', 0, 23, 0, '{}', '')
        ) as f (number, field, lowest, highest, star, names, more)
        cross join lateral unnest(string_to_array(words[f.number], ',')) with ordinality as i (item, place)
        cross join lateral shardclock.judged_cron_item(
            i.item, f.field, f.lowest, f.highest, f.star, f.names, f.more
        ) j
        order by f.number, i.place
    loop
        if found.refusal is not null then
            return shown || ' ' || found.refusal;
        end if;
    end loop;
    if is_spring then
        words[4] := case when words[4] = '?' then '*' else words[4] end;
        words[6] := case when words[6] = '?' then '*' else words[6] end;
    end if;
    for found in
        select j.refusal
        from (values (4, false), (6, true)) as f (number, is_weekday)
        cross join lateral unnest(string_to_array(words[f.number], ',')) with ordinality as i (item, place)
        cross join lateral shardclock.judged_cron_day(i.item, f.is_weekday) j
        where j.refusal is not null
        order by f.number, i.place
        limit 1
    loop
        return shown || ' ' || found.refusal;
    end loop;
    foreach item in array string_to_array(words[5], ',') loop
        select * into found from shardclock.judged_cron_item(item, 'month', 1, 12, 1, months, '');
        if found.refusal is not null then
            return shown || ' ' || found.refusal;
        end if;
        chosen_months := chosen_months | found.bits;
    end loop;
    if words[4] ^@ '*' and words[6] ^@ '*' then
        return null;
    end if;
    -- Check all months: a month has 28 to 31 days, and may begin on any weekday.
    for length in 28 .. 31 loop
        continue when chosen_months & case length
            when 30 then (1 << 4) | (1 << 6) | (1 << 9) | (1 << 11)
            when 31 then (1 << 1) | (1 << 3) | (1 << 5) | (1 << 7) | (1 << 8) | (1 << 10) | (1 << 12)
            else 1 << 2
        end = 0;
        for begins_on in 0 .. 6 loop
            select
                bit_or(shardclock.cron_days(i.item, j.bits, false, begins_on, length))
                    filter (where not f.is_weekday),
                bit_or(shardclock.cron_days(i.item, j.bits, true, begins_on, length)) filter (where f.is_weekday)
            into days, weekdays
            from (values (4, false), (6, true)) as f (number, is_weekday)
            cross join lateral unnest(string_to_array(words[f.number], ',')) as i (item)
            cross join lateral shardclock.judged_cron_day(i.item, f.is_weekday) j;
            days := case
                when is_spring or words[4] ^@ '*' or words[6] ^@ '*' then days & weekdays
                else days | weekdays
            end;
            if days <> 0 then
                return null;
            end if;
        end loop;
    end loop;
    return shardclock.never_occurs(upper(array_to_string(regexp_split_to_array(btrim(given, ' '), ' +'), ' ')));
end
$$;

comment on function shardclock.cron_refusal is 'Internal: Returns the refusal of a cron rule; null: it is valid.';
