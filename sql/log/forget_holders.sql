-- Deletes holders that ended long ago, and their heartbeats.
--
-- in:    :keep_days integer
-- out:   nothing
-- locks: the deleted rows
-- index: holders_ended; beats_pkey
with forgotten as (
    delete from shardclock.holders
    where ended_at < now() - make_interval(days => :keep_days)
    returning holder
)
delete from shardclock.beats b
where b.holder = any (array(select f.holder from forgotten f))
