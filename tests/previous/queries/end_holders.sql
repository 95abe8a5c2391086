-- Ends holders: their claims are free from the moment this commits, however many there are.
--
-- in:    $1 holders bigint[], $2 why text
-- out:   holder bigint, of those that this call ended
-- locks: the holders' rows
-- index: holders_pkey
update shardclock.holders
set ended_at = now(), ended_why = $2, held = 0, shard = null, shard_count = null
where holder = any ($1) and ended_at is null
returning holder
