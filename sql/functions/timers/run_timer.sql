-- in:    timer_key bigint, name text, tenant_id text, operation text
-- out:   text
-- locks: the timer, and the operation until the transaction ends
-- index: timers_pkey or timers_by_name_prefix; command_log_by_operation
create or replace function shardclock.run_timer(
    timer_key bigint default null,
    name text default null,
    tenant_id text default 'default',
    operation text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
begin
    -- If the same operation is sent again while the first call still runs, this waits, and then finds its record.
    -- Without an operation the key is null, and this waits for nothing.
    perform pg_advisory_xact_lock(hashtextextended('shardclock.run_timer ' || operation, 0));
    if shardclock.was_run(operation, timer_key, name, tenant_id) then
        return 'RESCHEDULED';
    end if;
    return shardclock.change_timer('run', timer_key, name, tenant_id, operation);
end
$$;

comment on function shardclock.run_timer is $$Makes a pending timer due now. A schedule runs once more, and keeps its
due dates. If the call is sent again with the same operation, the timer does not run twice.

as: cancel_timer
operation: a name for this run, so that it can be sent again when an answer was lost
returns: RESCHEDULED (now, or before with this operation), PENDING (it was due already, so nothing was done and nothing recorded: if the operation is sent again after the timer has fired, it runs the schedule's next occurrence), PAUSED (resume it first), or how it ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
example: select shardclock.run_timer(name => 'nightly', operation => 'deploy-17');
$$;
