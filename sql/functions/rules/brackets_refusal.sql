-- Returns the refusal if the zones in brackets in a text are invalid, or differ from each other or from the zone
-- `beside`; otherwise null.
--
-- in:    given text, beside text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.brackets_refusal(given text, beside text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    named constant text[] := array(
        select distinct m.match[1] collate "C"
        from regexp_matches(left(given, 300), '[[]([^][]*)[]]', 'g') as m (match)
        order by 1
    );
begin
    return case
        when named = '{}' then null
        when shardclock.zone_refusal(named[1]) is not null then shardclock.zone_refusal(named[1])
        when cardinality(named) > 1
            then format(
                '%s names the time zones %s and %s; write only one', shardclock.shown(given), named[1],
                shardclock.shown(named[2])
            )
        when beside not in (named[1], 'UTC')
            then format(
                '%s names the time zone %s, but its zone is %s; give only one', shardclock.shown(given), named[1], beside
            )
    end;
end
$$;

comment on function shardclock.brackets_refusal is
    'Internal: Returns the refusal of the time zones in a text; null: they are accepted.';
