-- Finds the open tasks of an instance, or of the instances of a business key, oldest first.
--
-- in:    :instance_key bigint or null
--        :business_key text or null: at least one of the two
--        as in find_tasks and find_tasks_of_assignee:
--        :tenant_id text or null (all tenants)
--        :after bigint, :assignee text or null, :unassigned boolean, :candidate_user text or null, :process_id text or
--          null, :for_user text or null, :candidate_groups text[] or null, :page_size integer
-- out:   the columns of find_tasks_of_assignee
-- locks: nothing
-- index: business_keys_by_key, all rows of the key; tasks_by_token, all rows of each instance; business_keys_pkey,
--        probes
select
    t.task_key, t.tenant_id, t.instance_key, t.process_id, t.node_id, t.name, t.assignee, t.candidate_groups,
    t.candidate_users, t.created_at, t.due_date, t.form_key,
    (select b.business_key from shardclock.business_keys b where b.instance_key = t.instance_key) as business_key
from (
    select :instance_key::bigint as instance_key
    where :instance_key is not null
        and (
            :business_key::text is null
            or exists (
                select
                from shardclock.business_keys b
                where b.instance_key = :instance_key and b.business_key = :business_key
            )
        )
    union all
    select b.instance_key
    from shardclock.business_keys b
    where :instance_key is null and b.business_key = :business_key
        and (:tenant_id::text is null or b.tenant_id = :tenant_id)
) i
-- A subquery with a limit instead of a join forces the planner to probe the index (docs/decisions/0005-queue-plans.md).
cross join lateral (
    select
        t.task_key, t.tenant_id, t.instance_key, t.process_id, t.node_id, t.name, t.assignee, t.candidate_groups,
        t.candidate_users, t.created_at, t.due_date, t.form_key, t.completed_at
    from shardclock.tasks t
    where t.instance_key = i.instance_key
    limit 1000000
) t
where t.completed_at is null
    and (:tenant_id is null or t.tenant_id = :tenant_id)
    and t.task_key > :after::bigint
    and (:assignee::text is null or t.assignee = :assignee)
    -- include: included/wanted_task.sql
order by t.task_key
limit :page_size::integer
