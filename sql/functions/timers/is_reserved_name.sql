-- Returns whether a name is reserved for timers of jobs and processes.
--
-- in:    name text
-- out:   boolean
-- locks: nothing
-- index: none
create or replace function shardclock.is_reserved_name(name text)
returns boolean
language sql
immutable
begin atomic
    select name ^@ 'job:' or name ^@ 'process:' or name ^@ 'start:';
end;

comment on function shardclock.is_reserved_name is
    'Internal: Returns whether the name is reserved for timers of jobs and processes.';
