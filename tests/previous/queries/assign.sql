-- Gives each holder its shard, all at once, if the caller still leads in its term.
--
-- in:    $1 leader bigint, $2 term bigint, $3 holders bigint[], $4 shards integer[] (null: none), $5 shard_count integer
-- out:   holder bigint, of those that were assigned; none if the caller no longer leads
-- locks: the coordination row (shared: leadership can't change under us), the holders' rows
-- index: holders_pkey
with mandate as materialized (
    select true as yes from shardclock.coordination where leader = $1::bigint and term = $2::bigint for share
)
update shardclock.holders h
set shard = a.shard, shard_count = case when a.shard is null then null else $5::integer end
from unnest($3::bigint[], $4::integer[]) as a (holder, shard), mandate
where h.holder = a.holder and h.ended_at is null
returning h.holder
