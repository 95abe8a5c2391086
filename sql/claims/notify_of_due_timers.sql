-- Notifies shards that a timer is due now, after a client has scheduled, moved or resumed the timer, or has requested a
-- run.
--
-- in:    nothing
-- out:   sent boolean
-- locks: the queue of notifications, during the commit
-- index: none
select pg_notify('shardclock_due', '') is not null as sent
