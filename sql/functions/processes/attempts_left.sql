-- in:    attempts_max integer, failed_attempts integer
-- out:   integer
-- locks: nothing
-- index: none
create or replace function shardclock.attempts_left(attempts_max integer, failed_attempts integer)
returns integer
language sql
immutable
begin atomic
    -- Three, as in Camunda 8. A program may take what others have failed at more often.
    select greatest(coalesce(attempts_max, 3) - failed_attempts, 1);
end;

comment on function shardclock.attempts_left is
    'Internal: Counts the attempts that a program has at a service task, with the one under way.';
