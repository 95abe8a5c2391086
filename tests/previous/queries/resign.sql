-- Gives the leader's lease back, so that another coordinator leads at once.
--
-- in:    $1 leader bigint
-- out:   nothing
-- locks: the coordination row
-- index: coordination_pkey
update shardclock.coordination
set leader = null, lease_until = null
where singleton and leader = $1
