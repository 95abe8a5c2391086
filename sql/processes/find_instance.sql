-- Finds one instance, with the timers, tasks, messages and calls for which it waits.
--
-- in:    :instance_key bigint
--        :tenant_id text or null (any tenant)
-- out:   instance_key bigint, tenant_id text, process_id text, version integer, state text, started_at timestamptz,
--          ended_at timestamptz, parent_key bigint, incidents integer
--        business_key text: as in find_instances
--        definition_key bigint, error_code text
--        instance_state text: tokens and variables
--        result jsonb
--        timers jsonb, service_tasks jsonb, tasks jsonb, subscriptions jsonb, called jsonb, incident_list jsonb: the
--          open waits, each with its begin as `since`, and the called instances that have begun
--        no row: the instance is unknown
--        An instance that no engine has begun is STARTING, and the columns after business_key are null, except
--          incident_list: if its start was given up, the instance has one incident
-- locks: nothing
-- index: instances_pkey; timers_by_token, deliveries_of_service_tasks, tasks_by_token, subscriptions_by_instance,
--        instances_by_parent, incidents_pkey, business_keys_pkey, probes; deliveries_pkey and dead_letters_pkey, probes
--        for an instance that has not begun
select
    i.instance_key, i.tenant_id, i.process_id, d.version, coalesce(i.outcome, 'RUNNING') as state, i.started_at,
    i.ended_at, i.parent_key, jsonb_array_length(n.found) as incidents,
    (select b.business_key from shardclock.business_keys b where b.instance_key = i.instance_key) as business_key,
    i.definition_key, i.error_code, i.state as instance_state, i.result,
    (
        select coalesce(
            jsonb_agg(
                jsonb_build_object(
                    'timer_key', t.timer_key, 'token', t.element_instance_key, 'node_id', t.target_element_id,
                    'due_date', coalesce(t.paused_due_date, t.due_date), 'schedule', t.schedule,
                    'since', t.created_at
                )
                order by t.due_date
            ),
            '[]'
        )
        from shardclock.timers t
        where t.process_instance_key + 0 = i.instance_key and (t.target = 'process:instance') is true
    ) as timers,
    (
        select coalesce(
            jsonb_agg(
                jsonb_build_object(
                    'task_key', j.timer_key, 'token', j.element_instance_key, 'node_id', j.target_element_id,
                    'type', j.target, 'failed_attempts', j.failed_attempts,
                    'worker', case when j.claimed_until > now() and j.claimed_by = 0 then j.worker end,
                    'claimed_until', case when j.claimed_until > now() then j.claimed_until end,
                    'since', j.created_at
                )
                order by j.timer_key + 0
            ),
            '[]'
        )
        from shardclock.deliveries j
        where j.process_instance_key = i.instance_key and j.timer_type = 'SERVICE_TASK'
    ) as service_tasks,
    (
        select coalesce(
            jsonb_agg(
                jsonb_build_object(
                    'task_key', t.task_key, 'token', t.token, 'node_id', t.node_id, 'name', t.name,
                    'assignee', t.assignee, 'since', t.created_at
                )
                order by t.task_key + 0
            ),
            '[]'
        )
        from shardclock.tasks t
        where t.instance_key = i.instance_key and t.completed_at is null
    ) as tasks,
    (
        select coalesce(
            jsonb_agg(
                jsonb_build_object(
                    'token', s.token, 'node_id', s.node_id, 'kind', s.kind, 'name', s.name,
                    'correlation', s.correlation, 'since', s.opened_at
                )
                order by s.token
            ),
            '[]'
        )
        from shardclock.subscriptions s
        where s.instance_key = i.instance_key
    ) as subscriptions,
    (
        select coalesce(
            jsonb_agg(
                jsonb_build_object(
                    'token', c.parent_token, 'process_id', c.process_id, 'instance_key', c.instance_key,
                    'since', c.started_at
                )
                order by c.instance_key + 0
            ),
            '[]'
        )
        from shardclock.instances c
        where c.parent_key = i.instance_key and c.ended_at is null
    ) as called,
    n.found as incident_list
from shardclock.instances i
join shardclock.definitions d on d.definition_key = i.definition_key
cross join lateral (
    select coalesce(
        jsonb_agg(
            jsonb_build_object(
                'token', n.token, 'node_id', n.node_id, 'sentence', n.sentence, 'raised_at', n.raised_at
            )
            order by n.raised_at
        ),
        '[]'
    ) as found
    from shardclock.incidents n
    where n.instance_key = i.instance_key
) n
where i.instance_key = :instance_key::bigint and (:tenant_id::text is null or i.tenant_id = :tenant_id)
union all
select
    w.timer_key, w.tenant_id, d.process_id, d.version, 'STARTING', w.fired_at, null, w.parent_key,
    jsonb_array_length(w.incident_list),
    (select b.business_key from shardclock.business_keys b where b.instance_key = w.timer_key), d.definition_key, null,
    null, null, '[]', '[]', '[]', '[]', '[]', w.incident_list
from (
    select
        s.timer_key, s.tenant_id, s.fired_at, (s.payload ->> 'definition')::bigint as definition_key,
        (s.payload ->> 'parent')::bigint as parent_key, '[]'::jsonb as incident_list
    from shardclock.deliveries s
    where s.timer_key = :instance_key and (s.target = 'process:instance') is true and s.process_instance_key is null
    union all
    select
        s.timer_key, s.tenant_id, s.fired_at, (s.payload ->> 'definition')::bigint, null,
        jsonb_build_array(
            jsonb_build_object(
                'token', 1, 'node_id', coalesce(s.target_element_id, ''),
                'sentence', format(
                    'its start was given up: %s; shardclock dead-letters redrive %s begins it', s.reason, s.timer_key
                ),
                'raised_at', s.died_at
            )
        )
    from shardclock.dead_letters s
    where s.timer_key = :instance_key and (s.target = 'process:instance') is true and s.process_instance_key is null
) w
cross join lateral (
    select d.definition_key, d.process_id, d.version
    from shardclock.definitions d
    where d.definition_key = w.definition_key
    limit 1
) d
where (:tenant_id is null or w.tenant_id = :tenant_id)
    and not exists (select from shardclock.instances i where i.instance_key = :instance_key)
