-- Returns the refusal if a job's rule has an end; otherwise null.
--
-- The pattern contains no backslash, because a session without standard_conforming_strings reads a backslash as an
-- escape.
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
                    'schedule %L ends, and a job has no end: write R/ without a number', left(schedule, 60)
                )
            -- Remove the zone in brackets, because its name may contain a slash, such as [Europe/Paris].
            when regexp_replace(schedule, '[[][^][]*[]]', '', 'g') ~* '^R.*/[+-]?P[^/]*/[^/]+$'
                then format(
                    'schedule %L ends, and a job has no end: write its start before the duration, or none',
                    left(schedule, 60)
                )
        end
$$;

comment on function shardclock.end_of_rule is
    'Internal: Returns the refusal if a job''s rule ends; null: the rule has no end.';
