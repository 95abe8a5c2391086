-- Reads a group's cursor and keeps its other members away from it; one of them may have it already.
--
-- in:    $1 group_name text
-- out:   xid text, position bigint; no row while another member holds it
-- locks: the group's row, until the transaction ends
-- index: consumers_pkey
select c.xid::text as xid, c.position
from shardclock.consumers c
where c.group_name = $1
for update skip locked
