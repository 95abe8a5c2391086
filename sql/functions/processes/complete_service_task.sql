-- in:    task_key bigint, claim integer, variables jsonb, tenant_id text
-- out:   text
-- locks: the task, and the new signal
-- index: deliveries_pkey; of a task that is gone command_log_by_timer_key
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
    -- The log's word is that of all deliveries, the caller's that of all tasks.
    return case state when 'DELIVERED' then 'COMPLETED' else state end;
end
$$;

comment on function shardclock.complete_service_task is $$Completes a service task that the caller has taken; its instance
goes on.

task_key: the task
claim: as it was taken
variables: a JSON object, what the task results in
tenant_id: refuse a task of another tenant; null: of any
returns: COMPLETED; TAKEN: another has taken it since; COMPLETED_BEFORE, DISCARDED_BEFORE, DEAD_BEFORE or RETRIED_BEFORE: it was answered so already, and this answer counts for nothing; CANCELED: its instance waits for it no more; NOT_FOUND: it never was the caller's, or the log has forgotten its end
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.complete_service_task(42, 1, '{"packed": true}');
$$;
