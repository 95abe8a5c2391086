-- Returns a zone's local time by means of the setting `timezone`: in this setting Postgres never reads a name as an
-- abbreviation. The function restores the setting before it returns.
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
