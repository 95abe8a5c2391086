-- Returns whether a run_timers call with this operation name has already run a timer.
--
-- With the name, the function also finds the run of a schedule that has fired since then, and so has another key.
--
-- in:    operation text, timer_key bigint, name text, tenant_id text
-- out:   boolean
-- locks: nothing
-- index: command_log_by_operation
create or replace function shardclock.was_run(operation text, timer_key bigint, name text, tenant_id text)
returns boolean
language sql
volatile -- a new snapshot: the caller may have waited for the transaction that ran the timer.
set enable_seqscan = off
begin atomic
    select exists (
        select from shardclock.command_log l
        where l.detail ->> 'operation' = was_run.operation
            and l.detail ->> 'run_now' = 'true'
            and (l.timer_key = was_run.timer_key or (l.tenant_id = was_run.tenant_id and l.name = was_run.name))
    );
end;
