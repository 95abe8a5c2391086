-- Gives the lead to another cluster: for as long as a lease, nobody but its coordinator can take it.
--
-- in:    $1 cluster_id text, $2 lease interval
-- out:   one row: before text (the cluster that led, or null), or none: that cluster leads already
-- locks: the coordination row
-- index: coordination_pkey
with old as materialized (
    select c.cluster_id as before, c.leader from shardclock.coordination c where c.singleton for update
)
update shardclock.coordination c
set leader = null, cluster_id = $1::text, lease_until = clock_timestamp() + $2
from old
where c.singleton and (old.leader is null or old.before is distinct from $1::text)
returning old.before
