-- Takes or renews the leader's lease; a new leader opens a new term.
--
-- in:    :leader bigint, :cluster_id text, :lease interval,
--        :fresh boolean (true: the coordinator has just started, and takes over from its own cluster's last coordinator
--        at once), :identity text (the installation that it is configured for, or '')
-- out:   one row: leads boolean, term bigint, leader bigint, cluster_id text, roles text[], wanted integer[]
--        (how many keepers each role wants; no workers while there is no target but the log, no engines before the first
--        deployment)
-- locks: the leadership row
-- index: leadership_pkey, newest first
with taken as (
    update shardclock.leadership c
    -- Later than the last renewal even if the clock was set back, because only the newest one counts.
    set renewed_at = greatest(clock_timestamp(), c.renewed_at + interval '1 microsecond'),
        term = case when c.leader = :leader then c.term else c.term + 1 end,
        leader = :leader,
        cluster_id = :cluster_id,
        lease_until = clock_timestamp() + :lease
    -- Not only equal: if two calls come at once, the second waits for the first, and then all conditions below are
    -- checked on the row that the first wrote. If that was its own renewal, whose answer was lost, it still leads.
    where c.renewed_at >= (select n.renewed_at from shardclock.leadership n order by n.renewed_at desc limit 1)
        -- A cluster on another's database must not take the slots from one that fires. While an operator holds all of
        -- them back one leads, so that all is there when that ends.
        and shardclock.foreign_reason(:identity::text) is null
        and (
            c.leader = :leader
            or c.lease_until is null
            or c.lease_until <= clock_timestamp()
            -- A lease can't end so late: it was taken before the clock was set back. At least a minute, because a lead
            -- that was handed over has a lease of another length.
            or c.lease_until > clock_timestamp() + greatest(2 * :lease::interval, interval '1 minute')
            -- The lead was handed over to this cluster, or a new coordinator takes over from its cluster's last one.
            or ((c.leader is null or :fresh) and c.cluster_id = :cluster_id)
        )
    returning true as leads, c.term, c.leader, c.cluster_id
),
known as (
    select leads, term, leader, cluster_id from taken
    union all
    (
        -- A coordinator that led, on a database that is another's now, no longer leads: then nobody does.
        select false, c.term, nullif(c.leader, :leader), c.cluster_id
        from shardclock.leadership c
        where not exists (select from taken)
        order by c.renewed_at desc
        limit 1
    )
)
select k.leads, k.term, k.leader, k.cluster_id, s.roles, s.wanted
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
