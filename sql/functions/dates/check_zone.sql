-- Returns the name of a time zone; refuses any other text.
--
-- in:    zone text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.check_zone(zone text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    refusal text := shardclock.zone_refusal(zone);
begin
    if zone is null or refusal is not null then
        raise exception 'zone %', coalesce(refusal, 'null is not an IANA time zone; write one such as UTC or Europe/Berlin')
            using errcode = 'invalid_parameter_value', constraint = 'invalid_zone';
    end if;
    return zone;
end
$$;
