-- in:    task_key bigint, claim integer, lease interval, tenant_id text
-- out:   text
-- locks: the task
-- index: deliveries_pkey; of a task that is gone command_log_by_timer_key
create or replace function shardclock.extend_service_task(
    task_key bigint, claim integer, lease interval default 'PT1M', tenant_id text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    if lease is null or lease < interval '1 s' or lease > interval '1 day' then
        raise exception 'lease % is not possible: give a second to a day', lease
            using errcode = 'invalid_parameter_value';
    end if;
    -- A lease that has run out is extended as long as nobody else has taken the task: that would have raised its claims.
    -- Until the lease runs out the task is not due, as after activate_service_tasks.
    update shardclock.deliveries d
    set claimed_until = clock_timestamp() + lease,
        next_attempt_at = clock_timestamp() + lease
    where d.timer_key = task_key and d.claims = claim and d.claimed_by = 0
        and (extend_service_task.tenant_id is null or d.tenant_id = extend_service_task.tenant_id);
    return case
        when found then 'EXTENDED'
        else shardclock.lost_service_task(task_key, claim, tenant_id)
    end;
end
$$;

comment on function shardclock.extend_service_task is $$Says that the caller still does a service task that it has taken,
and for how long. It may say so again and again.

task_key: the task
claim: as it was taken
lease: for how long from now, a second to a day; also shorter than what was left
tenant_id: refuse a task of another tenant; null: of any
returns: EXTENDED, also of a lease that has run out if nobody else has taken the task; else as complete_service_task
errors: 22023 for a lease that is not possible
example: select shardclock.extend_service_task(42, 1, 'PT30S');
$$;
