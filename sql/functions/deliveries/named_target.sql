-- Returns the target of a new or changed timer if the target must be checked; otherwise null.
--
-- A client can't schedule a timer with the target `process:instance`. Only the functions of processes write these
-- timers.
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
    'Internal: Returns the target of a new or changed timer, if the target must be checked.';
