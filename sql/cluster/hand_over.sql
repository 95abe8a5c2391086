-- Gives the lead to another cluster: until the lease ends, only that cluster's coordinator can take it.
--
-- in:    :cluster_id text, :lease interval
-- out:   one row: before text (the cluster that led, or null); or no row: that cluster leads already
-- locks: the leadership row
-- index: none; it runs rarely
with old as materialized (
    select l.cluster_id as before, l.leader from shardclock.leadership l for update
)
update shardclock.leadership l
set leader = null, cluster_id = :cluster_id::text, lease_until = clock_timestamp() + :lease
from old
where old.leader is null or old.before is distinct from :cluster_id::text
returning old.before
