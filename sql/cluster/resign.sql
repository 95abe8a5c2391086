-- Ends the leader's lease, so that another coordinator can lead immediately.
--
-- in:    :leader bigint
-- out:   nothing
-- locks: the leadership row
-- index: none; it runs rarely
update shardclock.leadership
set leader = null, node_id = null, lease_until = null
where leader = :leader
