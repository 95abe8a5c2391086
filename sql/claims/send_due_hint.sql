-- Tells shards that a timer is due at once: it was scheduled, moved, resumed or told to run.
--
-- in:    nothing
-- out:   sent boolean
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_due', '') is not null as sent
