-- Returns a zone's local time at a moment; never reads the zone's name as an abbreviation.
--
-- The function sets `timezone` to the zone, because Postgres accepts no abbreviations in this setting; the old value is
-- restored at the end.
--
-- in:    moment timestamptz, zone text
-- out:   timestamp
-- locks: nothing
-- index: none
create or replace function shardclock.named_clock(moment timestamptz, zone text)
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
