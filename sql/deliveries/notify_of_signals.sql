-- Notifies engines of signals that were sent to instances.
--
-- in:    nothing
-- out:   sent boolean
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_signals', '') is not null as sent
