-- Checks an item of a cron field, and returns its numbers as bits.
--
-- in:    item text, field text, lowest integer, highest integer, star integer, names text[], more text
-- out:   refusal text, bits bigint
-- locks: nothing
-- index: none
create or replace function shardclock.judged_cron_item(
    item text, field text, lowest integer, highest integer, star integer, names text[], more text,
    out refusal text, out bits bigint
)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    m text[] := regexp_match(item, '^(?:[*]|([0-9]+|[A-Z]{3})(?:-([0-9]+|[A-Z]{3}))?)(?:/([0-9]+))?$');
    word text := item;
    numbers numeric[];
begin
    numbers := array[shardclock.cron_number(m[1], names, lowest), shardclock.cron_number(m[2], names, lowest)];
    if m is not null then
        word := case when m[1] is not null and numbers[1] is null then m[1]
            when m[1] is not null and numbers[1] between lowest and highest and m[2] is not null and numbers[2] is null then m[2]
        end;
    end if;
    refusal := case
        when item = '?'
            then 'has the ' || field || ' ''?'', which only stands alone in a day field of six-field cron; write *'
        when word is not null
            then format(
                'has the %s %s; write * or %s to %s%s, in lists (1,2), ranges (1-5) and steps (*/2)%s', field,
                shardclock.shown(word), lowest, highest,
                case when names <> '{}' then ' or ' || names[1] || ' to ' || names[cardinality(names)] else '' end, more
            )
        when numbers[1] not between lowest and highest
            then format('has the %s %s; write %s to %s', field, shardclock.shown(m[1]), lowest, highest)
        when numbers[2] not between lowest and highest
            then format('has the %s %s; write %s to %s', field, shardclock.shown(m[2]), lowest, highest)
    end;
    if refusal is not null then
        return;
    end if;
    if m[2] is not null and field = 'day-of-week' then
        -- Sunday is both 0 and 7.
        numbers := array[
            numbers[1] % 7,
            case when numbers[2] <> 0 then numbers[2] when m[2] = 'SUN' then 7 else 0 end
        ];
        if numbers = '{0,7}' and (m[1], m[2]) <> ('0', '7') then
            refusal := format(
                'has the %s %s; write SUN for Sundays, or * for every day', field, shardclock.shown(item)
            );
            return;
        end if;
    end if;
    refusal := case
        when numbers[1] > numbers[2]
            then format(
                'has the %s %s, which runs backwards; write the lower bound first, or two ranges with a comma', field,
                shardclock.shown(item)
            )
        when m[3]::numeric = 0
            then format('has the %s %s, whose step is zero; write a step of 1 or more', field, shardclock.shown(item))
    end;
    numbers := case
        when m[1] is null then array[star, highest]
        when m[2] is null and m[3] is null then array[numbers[1], numbers[1]]
        when m[2] is null then array[numbers[1], highest]
        else numbers
    end;
    if refusal is null then
        select bit_or(1::bigint << n.n) into bits
        from generate_series(numbers[1]::integer, numbers[2]::integer, least(coalesce(m[3], '1')::numeric, 1000)::integer) as n (n);
    end if;
end
$$;

comment on function shardclock.judged_cron_item is
    'Internal: Returns the refusal of an item of a cron field; otherwise the numbers of the item, as bits.';
