-- Finds which of the given timers belong to jobs and processes; clients can't change these timers.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint
-- locks: nothing
-- index: timers_pkey, one probe for each key
select t.timer_key
from shardclock.timers t
where t.timer_key = any (:timer_keys::bigint[])
    -- The function call, instead of the column alone, prevents a plan that reads all timers of a target.
    and shardclock.is_of_system(t.target) is true
