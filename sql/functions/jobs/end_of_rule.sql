-- Without a backslash, which a session may read as an escape (standard_conforming_strings).
--
-- in:    schedule text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.end_of_rule(schedule text)
returns text
language sql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select
        case
            when schedule ~* '^R[+]?[0-9]'
                then format(
                    'schedule "%s" comes to an end, and a job goes on: write R/ without a number', left(schedule, 60)
                )
            when schedule ~* '^R.*/[+-]?P[^/]*/[^/]+$'
                then format(
                    'schedule "%s" comes to an end, and a job goes on: write its start before the duration, or none',
                    left(schedule, 60)
                )
        end
$$;

comment on function shardclock.end_of_rule is 'Internal: Says that a job''s rule comes to an end; null: it does not.';
