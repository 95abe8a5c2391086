-- The target of a row shows its owner: only the statements of jobs and processes write the targets `job:NAME` and
-- `process:instance`. Each client's interface refuses them. process_instance_key tells nothing: clients choose it.
-- docs/decisions/0069-reserved-names.md
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
    'Internal: Says whether a timer with this target is one of a job or a process.';
