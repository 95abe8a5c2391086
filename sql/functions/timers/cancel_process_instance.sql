-- Cancels all timers of a process instance of another engine.
--
-- in:    process_instance_key bigint, reason text
-- out:   bigint
-- locks: the timers
-- index: timers_by_process_instance
create or replace function shardclock.cancel_process_instance(process_instance_key bigint, reason text default null)
returns bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    keys bigint[];
    cancelled bigint := 0;
begin
    loop
        keys := array(
            select t.timer_key
            from shardclock.timers t
            where t.process_instance_key = cancel_process_instance.process_instance_key
                and shardclock.is_of_system(t.target) is not true
        );
        exit when keys = '{}';
        -- Read again, because a timer may have fired while this call waited for its row; then its next occurrence is a
        -- new row.
        cancelled := cancelled + (select count(*) from shardclock.cancel_timers(keys, reason));
    end loop;
    return cancelled;
end
$$;

comment on function shardclock.cancel_process_instance is $$Cancels all pending and paused timers of a process instance of
another engine. For an instance of Shardclock's own BPMN engine, use cancel_instance.

process_instance_key: the process instance for which the timers were scheduled
reason: stored in the log records
returns: the number of cancelled timers
errors: 22023 for a reason of more than 1,000 characters
example: select shardclock.cancel_process_instance(42, reason => 'the process ended');
$$;
