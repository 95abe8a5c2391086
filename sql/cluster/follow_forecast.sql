-- Sets the wanted number of keepers of a role by the forecast, if the role's policy is still in force.
--
-- in:    :leader bigint, :term bigint, :role text, :wanted integer
-- out:   one row, wanted integer; no row if the caller no longer leads, if the policy has ended, or if its bounds have
--        changed
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
