-- Keeps those of a batch's timers that are pending already from ending before the transaction does.
--
-- in:    $1 timer_keys bigint[]
-- out:   timer_key bigint
-- locks: the timers' rows, until the transaction ends, which is soon
-- index: timers_pkey, a probe a key
select t.timer_key
from shardclock.timers t
where t.timer_key = any ($1)
for key share
