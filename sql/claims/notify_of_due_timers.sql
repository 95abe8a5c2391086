-- Notifies shards that a timer is due now, because it was scheduled, moved, resumed or run on request.
--
-- in:    nothing
-- out:   sent boolean
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_due', '') is not null as sent
