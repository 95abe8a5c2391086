-- Takes or renews the leader's lease; a new leader opens a new term.
--
-- in:    $1 leader bigint, $2 cluster_id text, $3 lease interval,
--        $4 fresh boolean: a coordinator that has just started follows a predecessor of its own cluster at once,
--        $5 identity text: the installation that it is configured for, or ''
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
        -- Who may not fire must not take the slots from those who do.
        and shardclock.held_why($5::text) is null
        and (
            c.leader = $1
            or c.lease_until is null
            or c.lease_until <= clock_timestamp()
            -- No lease can end so late: it was taken by a clock that has been set back since. A minute at least, for a
            -- lead that is handed over has a lease of its own.
            or c.lease_until > clock_timestamp() + greatest(2 * $3::interval, interval '1 minute')
            -- Handed over to this cluster, or taken over from its own predecessor.
            or ((c.leader is null or $4) and c.cluster_id = $2)
        )
    returning true as leads, c.term, c.leader, c.cluster_id, c.shards_wanted
)
select leads, term, leader, cluster_id, shards_wanted from taken
union all
-- One that led, and is on hold now, leads no more: nobody does.
select false, c.term, nullif(c.leader, $1), c.cluster_id, c.shards_wanted
from shardclock.coordination c
where not exists (select from taken)
