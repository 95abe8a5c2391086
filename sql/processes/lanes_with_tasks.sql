-- Finds the lanes (pairs of task type and tenant) with a service task that a program can claim.
--
-- in:    :tenants text[] and :task_types text[]: the lanes, one element of each array for each lane
-- out:   tenant_id text, task_type text: the lanes with a task
-- locks: nothing
-- index: deliveries_by_lane, one probe for each lane
select w.tenant_id, w.task_type
from unnest(:tenants::text[], :task_types::text[]) as w (tenant_id, task_type)
cross join lateral (
    select d.timer_key
    from shardclock.deliveries d
    where d.target = w.task_type
        and d.tenant_id = w.tenant_id
        and d.timer_type = 'SERVICE_TASK'
        and d.next_attempt_at <= now()
        and (d.claimed_until is null or d.claimed_until < now())
    order by d.next_attempt_at, d.timer_key + 0
    limit 1
) d
