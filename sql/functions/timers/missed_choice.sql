-- Checks the choice for missed occurrences at a resume.
--
-- in:    missed text
-- out:   text: fire_once, fire_all or skip; null: policy
-- locks: nothing
-- index: none
create or replace function shardclock.missed_choice(missed text)
returns text
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if missed is null or missed not in ('policy', 'skip', 'fire_once', 'fire_all') then
        raise exception 'missed % is unknown: use policy, skip, fire_once or fire_all', quote_literal(left(missed, 60))
            using errcode = 'invalid_parameter_value', constraint = 'invalid_missed';
    end if;
    return nullif(missed, 'policy');
end
$$;

comment on function shardclock.missed_choice is
    'Internal: Checks the choice for missed occurrences at a resume; null: the policy of the schedule.';
