-- Finds one task, with its acts. An engine deletes the task's row soon after the task's end; afterwards all values come
-- from the acts.
--
-- in:    :task_key bigint
--        :tenant_id text or null (any tenant)
--        :acts_max integer: the limit of acts to read, the last ones
-- out:   task_key bigint, tenant_id text, instance_key bigint, process_id text, node_id text, name text, assignee text,
--          candidate_groups text[], candidate_users text[], created_at timestamptz, due_date timestamptz, form_key text
--        business_key text
--        the values before this line are null if the task's row was deleted and no act has the value
--        state text
--        token bigint and instance_state text: the task's token, and the instance's tokens and variables; nulls if the
--          task's row or the instance's state was deleted
--        acts jsonb: in order
--        no row: the task is unknown
-- locks: nothing
-- index: tasks_pkey, instances_pkey, task_acts_by_task, business_keys_pkey: probes
with act as materialized (
    select a.act_id, a.instance_key, a.acted_at, a.act, a.actor, a.detail
    from shardclock.task_acts a
    where a.task_key = :task_key::bigint
    order by a.act_id desc
    limit :acts_max::integer
),
found as (
    select
        t.task_key, t.tenant_id, t.instance_key, t.process_id, t.node_id, t.name,
        case
            when t.completed_at is null then t.assignee
            else (select a.detail ->> 'assignee' from act a where a.detail ? 'assignee' order by a.act_id desc limit 1)
        end as assignee,
        t.candidate_groups, t.candidate_users, t.created_at, t.due_date, t.form_key,
        case
            when t.completed_at is not null then 'COMPLETED' when t.assignee is not null then 'ASSIGNED' else 'CREATED'
        end as state,
        t.token,
        (select i.state from shardclock.instances i where i.instance_key = t.instance_key) as instance_state
    from shardclock.tasks t
    where t.task_key = :task_key
    union all
    select
        :task_key, i.tenant_id, i.instance_key, i.process_id, f.detail ->> 'node', f.detail ->> 'name',
        (select a.detail ->> 'assignee' from act a where a.detail ? 'assignee' order by a.act_id desc limit 1),
        -- If an act has no name, its candidates are unknown; if it has a name, a missing array counts as empty.
        case
            when f.detail ? 'name' then array(select jsonb_array_elements_text(f.detail -> 'candidate_groups'))
        end,
        case
            when f.detail ? 'name' then array(select jsonb_array_elements_text(f.detail -> 'candidate_users'))
        end,
        f.acted_at, (f.detail ->> 'due_date')::timestamptz, f.detail ->> 'form_key', l.act, null, null
    from (select a.act, a.instance_key from act a order by a.act_id desc limit 1) l
    cross join lateral (
        select a.acted_at, a.detail
        from shardclock.task_acts a
        where a.task_key = :task_key
        order by a.act_id
        limit 1
    ) f
    -- A subquery with a limit instead of a join forces the planner to probe the index
    -- (docs/decisions/0005-queue-plans.md).
    cross join lateral (
        select i.instance_key, i.tenant_id, i.process_id
        from shardclock.instances i
        where i.instance_key = l.instance_key
        limit 1
    ) i
    where l.act in ('COMPLETED', 'CANCELED')
        and not exists (select from shardclock.tasks t where t.task_key = :task_key)
)
select
    f.task_key, f.tenant_id, f.instance_key, f.process_id, f.node_id, f.name, f.assignee, f.candidate_groups,
    f.candidate_users, f.created_at, f.due_date, f.form_key,
    (select b.business_key from shardclock.business_keys b where b.instance_key = f.instance_key) as business_key,
    f.state, f.token, f.instance_state,
    (
        select coalesce(
            jsonb_agg(
                jsonb_build_object('act', a.act, 'acted_at', a.acted_at, 'actor', a.actor, 'detail', a.detail)
                order by a.act_id
            ),
            '[]'
        )
        from act a
    ) as acts
from found f
where :tenant_id::text is null or f.tenant_id = :tenant_id
