-- Counts the running instances of one version at each wait: one row for each element, kind and name of a wait.
--
-- in:    :definition_key bigint, :instances_max integer: the limit of instances to read; the oldest are read
-- out:   node_id text or null (of a call that began more than 100 steps ago), kind text: timer, service task, task,
--        message, signal, call or incident; name text or null: the task's type or name, the message's or signal's name,
--        or the called process; instances bigint: instances with this wait; since timestamptz, instance_key bigint and
--        business_key text or null: of the longest wait; instances_read bigint: the same in each row. The longest waits
--        come first, at most 200 rows. An instance with several waits is counted at each of them
-- locks: nothing
-- index: instances_running, at most :instances_max rows; for each instance timers_by_token,
--        deliveries_of_service_tasks, tasks_by_token, subscriptions_by_instance, instances_by_parent and incidents_pkey,
--        probes, at most 1,000 waits; instance_steps_pkey, backwards, at most 100 rows for each call;
--        business_keys_pkey, one probe for each row of the output
with running as materialized (
    select i.instance_key
    from shardclock.instances i
    where i.definition_key = :definition_key::bigint and (i.ended_at is null) is true
    order by i.instance_key + 0
    limit :instances_max::integer
),
place as (
    select
        w.node_id, w.kind, w.name, count(distinct r.instance_key) as instances, min(w.since) as since,
        (array_agg(r.instance_key order by w.since, r.instance_key))[1] as instance_key
    from running r
    cross join lateral (
        select t.target_element_id as node_id, 'timer' as kind, null as name, t.created_at as since
        from shardclock.timers t
        where t.process_instance_key + 0 = r.instance_key and (t.target = 'process:instance') is true
        union all
        select j.target_element_id, 'service task', j.target, j.created_at
        from shardclock.deliveries j
        where j.process_instance_key = r.instance_key and j.timer_type = 'SERVICE_TASK'
        union all
        select t.node_id, 'task', t.name, t.created_at
        from shardclock.tasks t
        where t.instance_key = r.instance_key and t.completed_at is null
        union all
        select s.node_id, s.kind, s.name, s.opened_at
        from shardclock.subscriptions s
        where s.instance_key = r.instance_key
        union all
        select
            (
                -- The called instance has only the number of the calling token. The history has the token's element.
                select p.pass ->> 1
                from (
                    select s.passes
                    from shardclock.instance_steps s
                    where s.instance_key = r.instance_key
                    order by s.version desc
                    limit 100
                ) s
                cross join lateral jsonb_array_elements(s.passes) as p (pass)
                where p.pass -> 0 = to_jsonb(c.parent_token)
                limit 1
            ),
            'call', c.process_id, c.started_at
        from shardclock.instances c
        where c.parent_key = r.instance_key and c.ended_at is null
        union all
        select n.node_id, 'incident', null, n.raised_at
        from shardclock.incidents n
        where n.instance_key = r.instance_key
        -- The limit also keeps the planner from joining all timers, tasks and subscriptions.
        limit 1000
    ) w
    group by w.node_id, w.kind, w.name
    order by since, node_id, kind, name
    limit 200
)
select
    p.node_id, p.kind, p.name, p.instances, p.since, p.instance_key,
    (select b.business_key from shardclock.business_keys b where b.instance_key = p.instance_key) as business_key,
    (select count(*) from running r) as instances_read
from place p
order by p.since, p.node_id, p.kind, p.name
