-- Extends the lease of a service task that the caller has claimed.
--
-- in:    task_key bigint, claim integer, lease interval, tenant_id text
-- out:   text
-- locks: the task
-- index: deliveries_pkey; command_log_by_timer_key for an ended task
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
        raise exception 'lease % is refused: give a second to a day', lease
            using errcode = 'invalid_parameter_value', constraint = 'invalid_lease';
    end if;
    -- A lease that has ended is also extended, unless a later claim of the task has raised the number of claims. The
    -- task is due when the lease ends, as after activate_service_tasks.
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

comment on function shardclock.extend_service_task is $$Extends the lease of a service task that the caller has claimed.
A program may call this function repeatedly.

task_key: the task
claim: the claim's number
lease: the new duration of the lease from now, a second to a day; it may be shorter than the remaining lease
tenant_id: refuse a task of another tenant; null: any tenant
returns: EXTENDED, even if the lease has ended, unless another program has claimed the task; otherwise a result of complete_service_task
errors: 22023 for an invalid lease
example: select shardclock.extend_service_task(42, 1, 'PT30S');
$$;
