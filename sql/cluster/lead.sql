-- Takes or renews the leader's lease; a new leader opens a new term.
--
-- in:    :leader bigint, :cluster_id text, :lease interval
--        :node_id text: the node for which the coordinator was made
--        :fresh boolean: whether the coordinator has just started; if so, it immediately replaces its own cluster's
--          last coordinator
--        :identity text: the installation that the coordinator is configured for, or ''
--        :patience interval: the caller waits this long after the last lease has ended, so that another cluster can
--          become the leader first
-- out:   one row:
--        leads boolean, term bigint, leader bigint, cluster_id text, node_id text, roles text[]
--        wanted integer[]: the wanted number of keepers of each role; 0 workers if the log is the only target; 0
--          engines before the first deployment
-- locks: the leadership row
-- index: leadership_pkey, newest first
with taken as (
    update shardclock.leadership c
    -- Readers use the newest time, so the new time must be later than the last renewal, even after the clock was set
    -- back.
    set renewed_at = greatest(clock_timestamp(), c.renewed_at + interval '1 microsecond'),
        term = case when c.leader = :leader then c.term else c.term + 1 end,
        leader = :leader,
        cluster_id = :cluster_id,
        node_id = :node_id,
        lease_until = clock_timestamp() + :lease
    -- ">=" instead of "=", for two concurrent calls: the second call waits, and Postgres then checks these conditions
    -- on the row that the first call has written. If both calls are from the same coordinator, it still leads.
    where c.renewed_at >= (select n.renewed_at from shardclock.leadership n order by n.renewed_at desc limit 1)
        -- A cluster of another installation must not take the slots from the cluster that fires. During an operator's
        -- hold a coordinator may lead, so that shards and workers are ready when the hold ends.
        and shardclock.foreign_reason(:identity::text) is null
        -- A coordinator of a lost Ray cluster may freeze, and wake up while a later Ray cluster with the same name
        -- leads; it must not become the leader again.
        and (
            c.cluster_id is distinct from :cluster_id
            or c.node_id is null
            or c.node_id = :node_id
            or (:fresh and (c.leader is not null or c.lease_until <= clock_timestamp()))
        )
        and (
            c.leader = :leader
            or (c.lease_until is null and :patience::interval = interval '0')
            or coalesce(c.lease_until, c.renewed_at) <= clock_timestamp() - :patience::interval
                -- If a lease ends later than this bound, it was written before the clock was set back. The bound is at
                -- least a minute, because a lease from hand_over.sql has another duration.
            or c.lease_until > clock_timestamp() + greatest(2 * :lease::interval, interval '1 minute')
            -- Either an operator has made this cluster the leading cluster, or the last leader was an earlier
            -- coordinator of this cluster.
            or ((c.leader is null or :fresh) and c.cluster_id = :cluster_id)
        )
    returning true as leads, c.term, c.leader, c.cluster_id, c.node_id
),
known as (
    select leads, term, leader, cluster_id, node_id from taken
    union all
    (
        -- If the database now belongs to another installation, its former leader no longer leads.
        select false, c.term, nullif(c.leader, :leader), c.cluster_id, c.node_id
        from shardclock.leadership c
        where not exists (select from taken)
        order by c.renewed_at desc
        limit 1
    )
)
select k.leads, k.term, k.leader, k.cluster_id, k.node_id, s.roles, s.wanted
from known k
cross join (
    select
        array_agg(s.role) as roles,
        array_agg(
            case
                when s.role = 'worker' and not shardclock.has_targets() then 0
                when s.role = 'engine' and not exists (select from shardclock.definitions) then 0
                else s.wanted
            end
        ) as wanted
    from shardclock.scale s
) s
