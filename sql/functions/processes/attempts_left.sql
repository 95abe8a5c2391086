-- Returns the number of attempts that are left for a service task, including the current attempt.
--
-- in:    attempts_max integer, failed_attempts integer
-- out:   integer
-- locks: nothing
-- index: none
create or replace function shardclock.attempts_left(attempts_max integer, failed_attempts integer)
returns integer
language sql
immutable
begin atomic
    -- The default is three, as in Camunda 8. A task may have more failures than the model allows, because a program can
    -- claim it again after its last attempt.
    select greatest(coalesce(attempts_max, 3) - failed_attempts, 1);
end;

comment on function shardclock.attempts_left is
    'Internal: Returns the number of attempts that are left for a service task, including the current attempt.';
