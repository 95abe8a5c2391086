-- Tells workers that there are new deliveries, if an app has declared handlers.
--
-- in:    nothing
-- out:   sent boolean, or no row: there are no handlers
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_deliveries', '') is not null as sent
where exists (select from shardclock.handlers)
