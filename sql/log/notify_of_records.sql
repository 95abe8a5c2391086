-- Notifies waiting consumers of new records, if a consumer group exists.
--
-- in:    nothing
-- out:   sent boolean; no row if there is no group
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_log', '') is not null as sent
where exists (select from shardclock.consumers)
