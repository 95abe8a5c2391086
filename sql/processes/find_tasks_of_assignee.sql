-- Finds a person's open tasks, oldest first.
--
-- in:    :assignee text
--        :tenant_id text or null (all tenants)
--        :after bigint: the end of the previous page, or 0
--        :candidate_groups text[] or null: only tasks with one of these groups
--        :candidate_user text or null, :process_id text or null, :page_size integer
-- out:   task_key bigint, tenant_id text, instance_key bigint, process_id text, node_id text, name text, assignee text,
--        candidate_groups text[], candidate_users text[], created_at timestamptz, due_date timestamptz, form_key text,
--        business_key text
-- locks: nothing
-- index: tasks_by_assignee, all tasks of the person; business_keys_pkey, probes
select
    t.task_key, t.tenant_id, t.instance_key, t.process_id, t.node_id, t.name, t.assignee, t.candidate_groups,
    t.candidate_users, t.created_at, t.due_date, t.form_key,
    (select b.business_key from shardclock.business_keys b where b.instance_key = t.instance_key) as business_key
from (
    -- The inner query has no order, so that the planner never scans all tasks in the order of their keys.
    select
        t.task_key, t.tenant_id, t.instance_key, t.process_id, t.node_id, t.name, t.assignee, t.candidate_groups,
        t.candidate_users, t.created_at, t.due_date, t.form_key, t.completed_at
    from shardclock.tasks t
    where t.assignee = :assignee::text
        and (:tenant_id::text is null or t.tenant_id = :tenant_id)
        and t.task_key > :after::bigint
    offset 0
) t
where t.completed_at is null
    and (:candidate_groups::text[] is null or t.candidate_groups && :candidate_groups)
    and (:candidate_user::text is null or :candidate_user = any (t.candidate_users))
    and (:process_id::text is null or t.process_id = :process_id)
order by t.task_key
limit :page_size::integer
