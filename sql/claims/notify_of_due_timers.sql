-- Notifies shards that a timer is due now, after a client has scheduled, moved, resumed or run it.
--
-- in:    nothing
-- out:   sent boolean
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_due', '') is not null as sent
