-- Forgets instances that ended long ago, with their history; their business keys go with them, by a trigger. One with a
-- long history loses a part of it each time, and goes itself with the last part: one statement never deletes more than it
-- can in time.
--
-- in:    :kept interval (how long they are kept after their end), :batch integer, :parts integer: how many steps are deleted
--        at most, and as many acts
-- out:   forgotten bigint: how many instances, has_more boolean: there may be others, or more of their history
-- locks: the rows that it forgets; leaves out instances that others have locked
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
-- Nobody changes these rows, and whoever deletes them has their instance's row.
steps_gone as (
    delete from shardclock.instance_steps s where s.ctid = any (array(select step.place from step))
),
acts_gone as (
    delete from shardclock.task_acts a where a.ctid = any (array(select act.place from act))
),
-- Those of which nothing is left. A value, not a join: whatever the planner believes, it can only probe (docs/decisions/0005-queue-plans.md).
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
