-- Finds the given timers that belong to jobs and processes; clients can't change them.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint
-- locks: nothing
-- index: timers_pkey, one probe for each key
select t.timer_key
from shardclock.timers t
where t.timer_key = any (:timer_keys::bigint[])
    -- This is an expression, not the column itself: with the column, the planner might read all timers of a target.
    and shardclock.is_of_system(t.target) is true
