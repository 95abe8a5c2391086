-- Takes or renews the leader's lease; a new leader opens a new term.
--
-- in:    $1 leader bigint, $2 cluster_id text, $3 lease interval,
--        $4 fresh boolean: a coordinator that has just started follows a predecessor of its own cluster at once
-- out:   one row: leads boolean, term bigint, leader bigint, cluster_id text, shards_wanted integer
-- locks: the coordination row
-- index: coordination_pkey
with taken as (
    update shardclock.coordination c
    set term = case when c.leader = $1 then c.term else c.term + 1 end,
        leader = $1,
        cluster_id = $2,
        lease_until = clock_timestamp() + $3
    where c.singleton
        and (
            c.leader = $1
            or c.leader is null
            or c.lease_until <= clock_timestamp()
            or ($4 and c.cluster_id = $2)
        )
    returning true as leads, c.term, c.leader, c.cluster_id, c.shards_wanted
)
select leads, term, leader, cluster_id, shards_wanted from taken
union all
select false, c.term, c.leader, c.cluster_id, c.shards_wanted
from shardclock.coordination c
where not exists (select from taken)
