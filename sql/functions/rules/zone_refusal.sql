-- Returns the refusal of a time zone.
--
-- in:    given text
-- out:   text
-- locks: nothing
-- index: zones_pkey
create or replace function shardclock.zone_refusal(given text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if given = 'UTC' or exists (select from shardclock.zones z where z.zone = given) then
        return null;
    end if;
    return shardclock.shown(given) || ' is not an IANA time zone; write one such as UTC or Europe/Berlin';
end
$$;

comment on function shardclock.zone_refusal is 'Internal: Returns the refusal of a time zone; null: it is valid.';
