-- Forgets holders that ended long ago.
--
-- in:    $1 keep_days integer
-- out:   nothing
-- locks: their rows
-- index: holders_ended
delete from shardclock.holders
where ended_at < now() - make_interval(days => $1)
