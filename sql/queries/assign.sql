-- Gives each holder its shard, and suspends or resumes it, all at once, if the caller still leads in its term.
--
-- in:    $1 leader bigint, $2 term bigint, $3 holders bigint[], $4 shards integer[] (null: none),
--        $5 suspended boolean[] (true: what it claims is free to others), $6 shard_count integer
-- out:   holder bigint, of those that were assigned; none if the caller no longer leads
-- locks: the coordination row (shared: leadership can't change under us), the holders' rows
-- index: holders_pkey
with mandate as materialized (
    select true as yes from shardclock.coordination where leader = $1::bigint and term = $2::bigint for share
)
update shardclock.holders h
set shard = a.shard,
    shard_count = case when a.shard is null then null else $6::integer end,
    suspended_at = case when a.suspended then coalesce(h.suspended_at, now()) end
from unnest($3::bigint[], $4::integer[], $5::boolean[]) as a (holder, shard, suspended), mandate
where h.holder = a.holder and h.ended_at is null
returning h.holder
