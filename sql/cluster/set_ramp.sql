-- Sets how many overdue timers fire per second after an outage; each claim reads this rate.
--
-- in:    :ramp_per_s integer or null: no limit
-- out:   one row: ramp_per_s integer, before integer (the rate before this call)
-- locks: the coordination row
-- index: coordination_pkey
with old as materialized (
    select ramp_per_s as before from shardclock.coordination where singleton for update
)
update shardclock.coordination c
set ramp_per_s = :ramp_per_s
from old
where c.singleton
returning c.ramp_per_s, old.before
