-- Returns whether a timer belongs to a job or a process: its target is `job:NAME` or `process:instance`.
--
-- The function ignores process_instance_key, because clients choose its value (docs/decisions/0069-reserved-names.md).
--
-- in:    target text
-- out:   boolean
-- locks: nothing
-- index: none
create or replace function shardclock.is_of_system(target text)
returns boolean
language sql
immutable
begin atomic
    select target ^@ 'job:' or target = 'process:instance';
end;

comment on function shardclock.is_of_system is
    'Internal: Returns whether a timer with this target belongs to a job or a process.';
