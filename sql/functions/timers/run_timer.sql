-- Makes one pending timer due now.
--
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
    perform shardclock.checked_text('operation', operation, 200);
    -- A repeated call waits for this lock while the first call runs, and then finds the record of the first call.
    -- Without an operation the key is null, so the call takes no lock.
    perform pg_advisory_xact_lock(hashtextextended('shardclock.run_timer ' || operation, 0));
    if shardclock.was_run(operation, timer_key, name, tenant_id) then
        return 'RESCHEDULED';
    end if;
    return shardclock.change_timer('run', timer_key, name, tenant_id, operation);
end
$$;

comment on function shardclock.run_timer is $$Makes a pending timer due now. A schedule runs one additional time, and keeps its due dates. A repeated call with the same operation does not run the timer again.

as: cancel_timer
operation: a name for this run, so that the caller can repeat the call if the response is lost
returns: RESCHEDULED (by this call, or by an earlier call with this operation), PENDING (the timer was due already, so the call changes and records nothing; a repeated call after the firing runs the schedule's next occurrence), PAUSED (resume the timer first), or how the timer ended: TRIGGERED, CANCELED, SKIPPED or UNKNOWN
example: select shardclock.run_timer(name => 'nightly', operation => 'deploy-17');
$$;
