-- Returns the state of a service task, for a caller that has lost its claim.
--
-- The query of deliveries has no condition on the target. With this condition, a plan that was made for an empty table
-- could read all service tasks of the target.
--
-- in:    task_key bigint, claim integer, tenant_id text
-- out:   text
-- locks: nothing
-- index: deliveries_pkey, command_log_by_timer_key
create or replace function shardclock.lost_service_task(task_key bigint, claim integer, tenant_id text)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    state text;
begin
    select case
            when claim < 1 or d.timer_type <> 'SERVICE_TASK' then 'NOT_FOUND'
            when claim < d.claims then 'TAKEN'
            when claim = d.claims and d.claimed_by is null then 'RETRIED_BEFORE'
            else 'NOT_FOUND'
        end
    into state
    from shardclock.deliveries d
    where d.timer_key = task_key
        and (lost_service_task.tenant_id is null or d.tenant_id = lost_service_task.tenant_id);
    if state is not null then
        return state;
    end if;
    -- An ended task has exactly one record of its end. If the instance itself ended the task, the record has no
    -- attempt.
    select case
            when l.intent = 'DELIVERED' then 'COMPLETED_BEFORE'
            when l.intent = 'DEAD' then 'DEAD_BEFORE'
            when l.detail ? 'attempt' then 'DISCARDED_BEFORE'
            else 'CANCELED'
        end
    into state
    from shardclock.command_log l
    where l.timer_key = task_key
        and l.timer_type = 'SERVICE_TASK'
        and l.intent in ('DELIVERED', 'DISCARDED', 'DEAD')
        and (lost_service_task.tenant_id is null or l.tenant_id = lost_service_task.tenant_id)
    limit 1;
    return coalesce(state, 'NOT_FOUND');
end
$$;

comment on function shardclock.lost_service_task is
    'Internal: Returns the state of a service task, for a caller that has lost the claim.';
