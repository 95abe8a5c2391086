-- Returns the time zone of a schedule: the zone in brackets in its text, or else the zone `beside`; refuses two
-- different zones.
--
-- in:    schedule text, beside text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.agreed_zone(schedule text, beside text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    refusal text := shardclock.brackets_refusal(schedule, beside);
begin
    if refusal is not null then
        raise exception 'schedule %', refusal
            using errcode = 'invalid_parameter_value', constraint = 'invalid_schedule';
    end if;
    return coalesce(substring(schedule from '[[]([^][]*)[]]'), beside);
end
$$;
