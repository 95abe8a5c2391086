-- Reads the clock of a zone through the `timezone` setting, because Postgres reads a name in this setting always as a
-- zone, never as an abbreviation. When the function ends, the setting has its former value.
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
