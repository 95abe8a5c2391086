-- A client's timer can't have a process as its target; only the functions of processes write such timers.
--
-- in:    wanted shardclock.timers, before shardclock.timers
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.named_target(wanted shardclock.timers, before shardclock.timers)
returns text
language sql
immutable
begin atomic
    select case
        when wanted.target in ('log', 'process:instance') or wanted.target = before.target then null
        when before.target is not null or wanted.occurrence = 1 then wanted.target
    end;
end;

comment on function shardclock.named_target is
    'Internal: Returns the target that a change of a timer names, unless it is the log.';
