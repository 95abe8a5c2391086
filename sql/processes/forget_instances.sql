-- Forgets instances that ended long ago, with their history.
--
-- in:    :kept interval (how long they are kept after their end), :batch integer
-- out:   instance_key bigint, of each
-- locks: the rows that it forgets; leaves out instances that others have locked
-- index: instances_by_end, instances_pkey, instance_steps_pkey, task_acts_by_instance, incidents_pkey
with old as materialized (
    select i.instance_key
    from shardclock.instances i
    where i.ended_at < now() - :kept::interval
    order by i.ended_at
    limit :batch::integer
    for update skip locked
),
steps_gone as (
    delete from shardclock.instance_steps s where s.instance_key = any (array(select old.instance_key from old))
),
acts_gone as (
    delete from shardclock.task_acts a where a.instance_key = any (array(select old.instance_key from old))
),
incidents_gone as (
    delete from shardclock.incidents n where n.instance_key = any (array(select old.instance_key from old))
)
delete from shardclock.instances i
where i.instance_key = any (array(select old.instance_key from old))
returning i.instance_key
