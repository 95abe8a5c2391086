-- Assigns parts of the slots to holders, and suspends or resumes holders. Changes nothing if the caller's term has
-- ended.
--
-- in:    :leader bigint, :term bigint, :holders bigint[]
--        :parts integer[]: the part of each holder; null: no part
--        :suspended boolean[]: whether other shards may take over the holder's claims
--        :part_count integer
-- out:   holder bigint of each holder that was assigned; no row if the caller no longer leads
-- locks: the leadership row (shared, so that leadership can't change before the commit), the holders' rows
-- index: leadership_pkey, newest first; holders_pkey
with mandate as materialized (
    select true as yes
    from shardclock.leadership l
    where l.leader = :leader::bigint and l.term = :term::bigint
    order by l.renewed_at desc
    limit 1
    for share
)
update shardclock.holders h
set part = a.part,
    part_count = case when a.part is null then null else :part_count::integer end,
    suspended_at = case when a.suspended then coalesce(h.suspended_at, now()) end
from unnest(:holders::bigint[], :parts::integer[], :suspended::boolean[]) as a (holder, part, suspended), mandate
where h.holder = a.holder and h.ended_at is null
returning h.holder
