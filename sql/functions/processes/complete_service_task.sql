-- Completes a service task that the caller has claimed.
--
-- in:    task_key bigint, claim integer, variables jsonb, tenant_id text
-- out:   text
-- locks: the task, and the new signal
-- index: deliveries_pkey; command_log_by_timer_key for an ended task
create or replace function shardclock.complete_service_task(
    task_key bigint, claim integer, variables jsonb default '{}', tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    state text;
begin
    perform shardclock.check_variables(variables);
    state := shardclock.end_service_task(
        task_key, claim, tenant_id, 'DELIVERED', '{}', jsonb_build_object('kind', 'completed', 'variables', variables)
    );
    -- Convert the delivery's state in the log to the state of a task.
    return case state when 'DELIVERED' then 'COMPLETED' else state end;
end
$$;

comment on function shardclock.complete_service_task is $$Completes a service task that the caller has claimed; the task's
instance continues.

task_key: the task
claim: the claim's number
variables: a JSON object, the results of the task
tenant_id: refuse a task of another tenant; null: any tenant
returns: COMPLETED; TAKEN: another program has claimed the task in the meantime; COMPLETED_BEFORE, DISCARDED_BEFORE, DEAD_BEFORE or RETRIED_BEFORE: an earlier call has ended this claim with this result, and this call has no effect; CANCELED: the instance no longer waits for the task; NOT_FOUND: the caller never had the task, or its record was deleted from the log
errors: 22023 for variables that are not an object or have more than 1 MiB
example: select shardclock.complete_service_task(42, 1, '{"packed": true}');
$$;
