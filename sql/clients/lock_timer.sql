-- Keeps a pending timer as it is until this transaction ends: nobody changes, fires or cancels it meanwhile.
--
-- in:    :timer_key bigint
-- out:   timer_key bigint; nothing if it is not pending
-- locks: the timer's row, until the transaction ends
-- index: timers_pkey
select t.timer_key
from shardclock.timers t
where t.timer_key = :timer_key
for no key update
