-- Tells workers that there are new deliveries, if an app has declared handlers or a tenant has endpoints.
--
-- in:    nothing
-- out:   sent boolean, or no row: there are no handlers and no endpoints
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_deliveries', '') is not null as sent
where shardclock.has_targets()
