-- Sets how many keepers of a role are wanted, for a leader that follows a policy, if the policy still holds.
--
-- in:    :leader bigint, :term bigint, :role text, :wanted integer
-- out:   one row, wanted integer; none if the caller no longer leads, or if the policy has ended or changed its
--        bounds
-- locks: the leadership row (shared), the role's row
-- index: leadership_pkey, newest first; scale_pkey
with mandate as materialized (
    select true as yes
    from shardclock.leadership l
    where l.leader = :leader and l.term = :term
    order by l.renewed_at desc
    limit 1
    for share
)
update shardclock.scale s
set wanted = :wanted
from mandate
where s.role = :role and :wanted between s.wanted_min and s.wanted_max
returning s.wanted
