-- Deletes instances that ended long ago, with their history; a trigger deletes their business keys. If an instance has
-- a long history, one call deletes only a limited number of its rows, so that the statement does not time out. The last
-- call deletes the instance.
--
-- in:    :kept interval: the retention after an instance's end
--        :batch integer
--        :parts integer: the limit of steps to delete, and also of acts to delete
-- out:   forgotten bigint: the number of deleted instances
--        has_more boolean: more instances or more history may be left
-- locks: the rows that it deletes; skips locked instances
-- index: instances_by_end, instances_pkey, instance_steps_pkey, task_acts_by_instance, incidents_pkey,
--        business_keys_pkey
with old as materialized (
    select i.instance_key, i.ended_at
    from shardclock.instances i
    where i.ended_at < now() - :kept::interval
    order by i.ended_at
    limit :batch::integer
    for update skip locked
),
step as materialized (
    select s.ctid as place
    from (select o.instance_key from old o order by o.ended_at) o
    cross join lateral (
        select s.ctid
        from shardclock.instance_steps s
        where s.instance_key = o.instance_key
        limit :parts::integer
    ) s
    limit :parts
),
act as materialized (
    select a.ctid as place
    from (select o.instance_key from old o order by o.ended_at) o
    cross join lateral (
        select a.ctid
        from shardclock.task_acts a
        where a.instance_key = o.instance_key
        limit :parts
    ) a
    limit :parts
),
-- No lock is needed, because these rows never change, and each transaction that deletes them has first locked their
-- instance.
steps_gone as (
    delete from shardclock.instance_steps s where s.ctid = any (array(select step.place from step))
),
acts_gone as (
    delete from shardclock.task_acts a where a.ctid = any (array(select act.place from act))
),
-- Select the instances that have no steps and acts left after this call. Only these instances are deleted. A subquery
-- instead of a join forces the planner to probe the index (docs/decisions/0005-queue-plans.md).
whole as materialized (
    select o.instance_key
    from old o
    where (
        select s.version
        from shardclock.instance_steps s
        where s.instance_key = o.instance_key and s.ctid not in (select step.place from step)
        limit 1
    ) is null
    and (
        select a.act_id
        from shardclock.task_acts a
        where a.instance_key = o.instance_key and a.ctid not in (select act.place from act)
        limit 1
    ) is null
),
incidents_gone as (
    delete from shardclock.incidents n where n.instance_key = any (array(select whole.instance_key from whole))
),
gone as (
    delete from shardclock.instances i
    where i.instance_key = any (array(select whole.instance_key from whole))
    returning i.instance_key
)
select
    (select count(*) from gone) as forgotten,
    (select count(*) from old) = :batch or (select count(*) from old) > (select count(*) from whole) as has_more
