-- Mends what a moment's race has left: cancels children for which their parent waits no more, and takes away what
-- instances that have ended seem to wait for. It looks at those of the last minutes.
--
-- in:    :within interval, :batch integer
-- out:   instance_key bigint, of each instance that it changed or signalled
-- locks: the rows that it takes away; leaves out rows that others have locked
-- index: instances_of_parents_by_start, instances_by_end, instances_pkey, tasks_by_token, subscriptions_by_instance
with orphan as materialized (
    select i.instance_key, i.tenant_id
    from (
        select i.*
        from shardclock.instances i
        where i.parent_key is not null and i.started_at > now() - :within::interval and i.ended_at is null
        order by i.started_at
        limit :batch::integer
    ) i
    cross join lateral (
        select p.state
        from shardclock.instances p
        where p.instance_key = i.parent_key
        limit 1
    ) p
    where case
        when p.state is null then true
        else not exists (
            select from jsonb_array_elements(p.state::jsonb -> 't') as t (token)
            where (t.token ->> 0)::bigint = i.parent_token
        )
    end
),
told as (
    select o.instance_key, shardclock.send_signal(o.instance_key, o.tenant_id, '{"kind": "cancel"}') as signal
    from orphan o
),
ended as materialized (
    select i.instance_key
    from shardclock.instances i
    where i.ended_at > now() - :within
    order by i.ended_at
    limit :batch
),
tasks_gone as (
    delete from shardclock.tasks t
    where t.task_key = any (
        array(
            select t.task_key
            from ended e
            cross join lateral (
                select t.task_key
                from shardclock.tasks t
                where t.instance_key = e.instance_key
                for update skip locked
            ) t
        )
    )
    returning t.instance_key
),
subscriptions_gone as (
    delete from shardclock.subscriptions s
    where s.subscription_key = any (
        array(
            select s.subscription_key
            from ended e
            cross join lateral (
                select s.subscription_key
                from shardclock.subscriptions s
                where s.instance_key = e.instance_key
                for update skip locked
            ) s
        )
    )
    returning s.instance_key
)
select t.instance_key from told t where t.signal is not null
union all
select t.instance_key from tasks_gone t
union all
select s.instance_key from subscriptions_gone s
