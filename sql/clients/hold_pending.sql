-- Locks the pending timers of a batch, so that no timer of the batch ends before this transaction commits.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint
-- locks: the timers' rows, until the transaction ends
-- index: timers_pkey, one probe for each key
select t.timer_key
from shardclock.timers t
where t.timer_key = any (:timer_keys)
for key share
