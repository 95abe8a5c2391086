-- Finds open tasks, the oldest first.
--
-- in:    :tenant_id text or null (null: of all), :assignee text or null, :unassigned boolean (only those that nobody has),
--        :candidate_group text or null, :candidate_user text or null, :process_id text or null,
--        :instance_key bigint or null, :after bigint (of the page before, or 0), :page_size integer
-- out:   task_key bigint, tenant_id text, instance_key bigint, process_id text, node_id text, name text, assignee text,
--        candidate_groups text[], candidate_users text[], created_at timestamptz, due_date timestamptz, form_key text
-- locks: nothing
-- index: tasks_pkey or tasks_by_tenant
select
    t.task_key, t.tenant_id, t.instance_key, t.process_id, t.node_id, t.name, t.assignee, t.candidate_groups,
    t.candidate_users, t.created_at, t.due_date, t.form_key
from shardclock.tasks t
where t.completed_at is null
    and (:tenant_id::text is null or t.tenant_id = :tenant_id)
    and (:assignee::text is null or t.assignee = :assignee)
    and (not :unassigned::boolean or t.assignee is null)
    and (:candidate_group::text is null or :candidate_group = any (t.candidate_groups))
    and (:candidate_user::text is null or :candidate_user = any (t.candidate_users))
    and (:process_id::text is null or t.process_id = :process_id)
    and (:instance_key::bigint is null or t.instance_key = :instance_key)
    and t.task_key > :after::bigint
order by t.task_key
limit :page_size::integer
