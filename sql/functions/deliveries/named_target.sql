-- A client names no process as its target; the functions of processes write the timers of instances themselves.
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
    'Internal: Names the target that a change of a timer asks for, if it is not the log.';
