-- Locks a pending timer until this transaction ends, so that no other transaction changes, fires or cancels it.
--
-- in:    :timer_key bigint
-- out:   timer_key bigint; no row if the timer is not pending
-- locks: the timer's row, until the transaction ends
-- index: timers_pkey
select t.timer_key
from shardclock.timers t
where t.timer_key = :timer_key
for no key update
