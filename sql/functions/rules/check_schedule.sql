-- Refuses a rule for which no shard can compute due dates.
--
-- in:    given text, zone text
-- out:   nothing
-- locks: nothing
-- index: none
create or replace function shardclock.check_schedule(given text, zone text)
returns void
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    refusal text := shardclock.rule_refusal(given, zone);
begin
    if refusal is not null then
        raise exception 'schedule %', refusal
            using errcode = 'invalid_parameter_value', constraint = 'invalid_schedule';
    end if;
end
$$;

comment on function shardclock.check_schedule is 'Internal: Refuses a rule for which no shard can compute due dates.';
