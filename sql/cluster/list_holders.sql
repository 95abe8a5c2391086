-- Lists the holders that have not ended.
--
-- in:    nothing
-- out:   holder bigint, cluster_id text, actor_name text, node_id text, host text, pid integer, shard integer,
--        shard_count integer, held integer, started_at timestamptz, seen_at timestamptz,
--        suspended_at timestamptz or null, silent_s double precision, identity text (the installation that it is
--        configured for; '' for none), hold_reason text (why it may not fire) or null
-- locks: nothing
-- index: none, the table is small; beats_pkey, newest first
select
    holder, cluster_id, actor_name, node_id, host, pid, shard, shard_count, held, started_at, seen_at,
    suspended_at, extract(epoch from clock_timestamp() - seen_at)::double precision as silent_s,
    identity, shardclock.hold_reason(identity) as hold_reason
from shardclock.presence
order by shard nulls last, started_at
