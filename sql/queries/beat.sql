-- Says that a holder is alive, and how many timers it holds in memory.
--
-- in:    $1 holder bigint, $2 held integer
-- out:   one row: server_time timestamptz, shard integer and shard_count integer (nulls: it has none), held_why text
--        (why it takes nothing) or null; or no row: the holder has been ended and must stop
-- locks: the holder's row
-- index: holders_pkey
update shardclock.holders
set seen_at = now(), held = $2
where holder = $1 and ended_at is null
returning clock_timestamp() as server_time, shard, shard_count, shardclock.held_why(identity) as held_why
