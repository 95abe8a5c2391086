-- Sets how many timers that an outage left overdue are fired in a second; every claim reads it.
--
-- in:    $1 ramp_per_s integer or null: no limit
-- out:   one row: ramp_per_s integer, before integer
-- locks: the coordination row
-- index: coordination_pkey
with old as materialized (
    select ramp_per_s as before from shardclock.coordination where singleton for update
)
update shardclock.coordination c
set ramp_per_s = $1
from old
where c.singleton
returning c.ramp_per_s, old.before
