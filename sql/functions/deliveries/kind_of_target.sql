-- Returns the kind of a target, which is a label of the firing metrics; a job counts as a handler.
--
-- in:    target text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.kind_of_target(target text)
returns text
language sql
immutable
begin atomic
    select case
        when target = 'log' then 'log'
        when target like 'webhook:%' then 'webhook'
        when target = 'process:instance' then 'process'
        else 'handler'
    end;
end;

comment on function shardclock.kind_of_target is
    'Internal: Returns the kind of a target: the log, a handler, a webhook or an instance of a process.';
