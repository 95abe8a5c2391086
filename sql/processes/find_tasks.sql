-- Finds open tasks, oldest first. One call reads a limited number of rows, so a search may take several calls
-- (docs/decisions/0063-task-lists-go-in-steps.md).
--
-- in:    :tenant_id text or null (all tenants)
--        :after bigint: the end of the previous page or step, or 0
--        :rows_max integer: the limit of rows to read
--        :unassigned boolean: only tasks without an assignee
--        :candidate_user text or null, :process_id text or null
--        :for_user text or null: only this person's tasks, and the tasks without an assignee that the person or one of
--          the groups may take
--        :candidate_groups text[]: the groups of the person; without :for_user, only the tasks of these groups; null:
--          any group
--        :page_size integer
-- out:   task_key bigint, tenant_id text, instance_key bigint, process_id text, node_id text, name text, assignee text,
--          candidate_groups text[], candidate_users text[], created_at timestamptz, due_date timestamptz, form_key
--          text, business_key text
--        looked_to bigint: the last key that was read, from which the next call continues; null: the page is full, or
--          there are no more rows. If no task was found, one row has only looked_to
-- locks: nothing
-- index: tasks_pkey or tasks_by_tenant, :rows_max rows, twice if the page is not full; business_keys_pkey, probes
with found as materialized (
    select
        t.task_key, t.tenant_id, t.instance_key, t.process_id, t.node_id, t.name, t.assignee, t.candidate_groups,
        t.candidate_users, t.created_at, t.due_date, t.form_key
    from (
        -- The limit is in the inner query, so that a filter can't make the call read more rows.
        select
            t.task_key, t.tenant_id, t.instance_key, t.process_id, t.node_id, t.name, t.assignee, t.candidate_groups,
            t.candidate_users, t.created_at, t.due_date, t.form_key, t.completed_at
        from shardclock.tasks t
        where (:tenant_id::text is null or t.tenant_id = :tenant_id) and t.task_key > :after::bigint
        order by t.task_key
        limit :rows_max::integer
    ) t
    where t.completed_at is null
        -- include: included/wanted_task.sql
    order by t.task_key
    limit :page_size::integer
),
step as materialized (
    select
        case
            when (select count(*) from found f) < :page_size then (
                select t.task_key
                from shardclock.tasks t
                where (:tenant_id is null or t.tenant_id = :tenant_id) and t.task_key > :after
                order by t.task_key
                limit 1
                offset :rows_max - 1
            )
        end as looked_to
)
select
    f.task_key, f.tenant_id, f.instance_key, f.process_id, f.node_id, f.name, f.assignee, f.candidate_groups,
    f.candidate_users, f.created_at, f.due_date, f.form_key,
    (select b.business_key from shardclock.business_keys b where b.instance_key = f.instance_key) as business_key,
    s.looked_to
from step s
left join found f on true
order by f.task_key
