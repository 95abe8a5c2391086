-- Ends a service task that a program has completed or given up, and sends the result to the instance.
--
-- in:    task_key bigint, claim integer, tenant_id text, intent text, detail jsonb, signal jsonb
-- out:   text
-- locks: the task, and the new signal
-- index: deliveries_pkey; command_log_by_timer_key for an ended task
create or replace function shardclock.end_service_task(
    task_key bigint, claim integer, tenant_id text, intent text, detail jsonb, signal jsonb
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    task shardclock.deliveries;
begin
    delete from shardclock.deliveries d
    where d.timer_key = task_key and d.claims = claim and d.claimed_by = 0
        and (end_service_task.tenant_id is null or d.tenant_id = end_service_task.tenant_id)
    returning d.* into task;
    if not found then
        return shardclock.lost_service_task(task_key, claim, tenant_id);
    end if;
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, target_element_id, detail
    )
    values (
        task.timer_key, task.process_instance_key, task.element_instance_key, task.due_date, task.created_at,
        task.occurrence, end_service_task.intent, task.tenant_id, task.timer_type, task.target, task.target_element_id,
        jsonb_strip_nulls(
            end_service_task.detail
                || jsonb_build_object(
                    'attempt', task.failed_attempts + 1, 'by', session_user, 'worker', task.worker
                )
        )
    );
    perform shardclock.send_signal(
        task.process_instance_key, task.tenant_id, end_service_task.signal, task.element_instance_key,
        task.target_element_id
    );
    return end_service_task.intent;
end
$$;

comment on function shardclock.end_service_task is
    'Internal: Ends a service task that a program has completed or given up.';
