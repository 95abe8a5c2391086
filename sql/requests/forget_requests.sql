-- Empties the slot that is neither today's nor yesterday's, if its newest request is older than 36 hours.
--
-- in:    nothing
-- out:   emptied integer (how many slots: 1 or 0)
-- locks: that slot, exclusively, until the transaction ends; gives up (55P03) at once while another transaction holds a
--        lock on it
-- index: the slot's part of idempotent_requests_by_age, one probe
select shardclock.forget_requests() as emptied
