-- Finds the ended instances among the given instances.
--
-- in:    :instance_keys bigint[]
-- out:   instance_key bigint
-- locks: nothing
-- index: instances_pkey, one probe for each key
select i.instance_key
from unnest(:instance_keys::bigint[]) as k (instance_key)
join shardclock.instances i on i.instance_key = k.instance_key
where i.ended_at is not null
