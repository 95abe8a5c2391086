-- Sets how many shards are wanted, for a leader that follows a policy, if the policy still holds.
--
-- in:    :leader bigint, :term bigint, :shards_wanted integer
-- out:   one row, shards_wanted integer; none if the caller no longer leads, or if the policy has ended or changed its
--        bounds
-- locks: the leadership row (shared), the coordination row
-- index: leadership_pkey, newest first; coordination_pkey
with mandate as materialized (
    select true as yes
    from shardclock.leadership l
    where l.leader = :leader and l.term = :term
    order by l.renewed_at desc
    limit 1
    for share
)
update shardclock.coordination c
set shards_wanted = :shards_wanted
from mandate
where c.singleton and :shards_wanted between c.shards_min and c.shards_max
returning c.shards_wanted
