-- Reads the clock of a zone through the `timezone` setting, because Postgres never reads a name in this setting as an
-- abbreviation. The function restores the setting at its end.
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
