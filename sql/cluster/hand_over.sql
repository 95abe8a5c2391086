-- Makes the given cluster the leading cluster. Until the lease ends, only a coordinator of this cluster can become the
-- leader.
--
-- in:    :cluster_id text
--        :node_id text or null: only a coordinator of this node can become the leader; null: any node
--        :lease interval
--        :from_cluster text or null: only this cluster loses the lead; null: any cluster
-- out:   one row:
--        before text: the cluster that led, or null
--        no row if :cluster_id leads already, or if :from_cluster does not lead
-- locks: the leadership row
-- index: none; it runs rarely
with old as materialized (
    select l.cluster_id as before, l.leader from shardclock.leadership l for update
)
update shardclock.leadership l
set leader = null, cluster_id = :cluster_id::text, node_id = :node_id::text, lease_until = clock_timestamp() + :lease
from old
where (old.leader is null or old.before is distinct from :cluster_id::text)
    and (:from_cluster::text is null or old.before = :from_cluster::text)
returning old.before
