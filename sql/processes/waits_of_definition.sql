-- Counts the running instances of one version at each wait: one row for each element, kind and name of a wait.
--
-- in:    :definition_key bigint
--        :instances_max integer: the limit of instances to read; the oldest are read
-- out:   node_id text or null: null for a call that began more than 100 steps ago
--        kind text: timer, service task, task, message, signal, call or incident
--        name text or null: the task's type or name, the message's or signal's name, or the called process
--        instances bigint: instances with this wait
--        since timestamptz
--        instance_key bigint and business_key text or null: the instance with the longest wait
--        instances_read bigint: the number of instances that were read; the same in each row
--        the longest waits come first, at most 200 rows. An instance with several waits is counted at each of them
-- locks: nothing
-- index: instances_running, at most :instances_max rows; for each instance timers_by_token,
--        deliveries_of_service_tasks, tasks_by_token, subscriptions_by_instance, instances_by_parent and
--        incidents_pkey, probes, at most 1,000 waits; instance_steps_pkey, backwards, at most 100 rows for each call;
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
        -- include: included/waits_of_instance.sql
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
