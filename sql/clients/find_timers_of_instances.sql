-- Finds which of some timers belong to instances of BPMN processes, which wait for them.
--
-- in:    :timer_keys bigint[]
-- out:   timer_key bigint
-- locks: nothing
-- index: timers_pkey, one probe for each key
select t.timer_key
from shardclock.timers t
where t.timer_key = any (:timer_keys::bigint[])
    -- An expression, so that the planner does not read all timers of the target.
    and (t.target = 'process:instance') is true
    and t.process_instance_key is not null
