-- Finds which of some timers are those of jobs and processes, which no client changes.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint
-- locks: nothing
-- index: timers_pkey, one probe for each key
select t.timer_key
from shardclock.timers t
where t.timer_key = any (:timer_keys::bigint[])
    -- An expression, so that the planner does not read all timers of a target.
    and shardclock.is_of_system(t.target) is true
