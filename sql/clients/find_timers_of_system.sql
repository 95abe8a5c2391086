-- Finds the timers of jobs and processes among the given timers; clients can't change these timers.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint
-- locks: nothing
-- index: timers_pkey, one probe for each key
select t.timer_key
from shardclock.timers t
where t.timer_key = any (:timer_keys::bigint[])
    -- The condition is a function call, so that the planner can't choose the index on the target and read all its
    -- timers.
    and shardclock.is_of_system(t.target) is true
