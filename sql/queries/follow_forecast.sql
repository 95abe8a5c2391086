-- Sets how many shards are wanted, for the leader that follows a policy, if that policy still stands.
--
-- in:    $1 leader bigint, $2 term bigint, $3 shards_wanted integer
-- out:   one row, shards_wanted integer; none if the caller no longer leads, or an operator has set the number
-- locks: the coordination row
-- index: coordination_pkey
update shardclock.coordination
set shards_wanted = $3
where singleton and leader = $1 and term = $2 and $3 between shards_min and shards_max
returning shards_wanted
