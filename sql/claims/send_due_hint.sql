-- Tells shards that a client has scheduled a timer that is due at once.
--
-- in:    nothing
-- out:   sent boolean
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_due', '') is not null as sent
