-- Tells waiting consumers that there may be new records, if there are any groups.
--
-- in:    nothing
-- out:   sent boolean, or no row: there is no group
-- locks: the queue of notifications, for the commit
-- index: none
select pg_notify('shardclock_log', '') is not null as sent
where exists (select from shardclock.consumers)
