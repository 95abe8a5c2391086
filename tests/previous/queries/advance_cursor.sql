-- Moves a group's cursor behind the last record of which the work is done.
--
-- in:    $1 group_name text, $2 xid text, $3 position bigint
-- out:   nothing
-- locks: the group's row
-- index: consumers_pkey
update shardclock.consumers
set xid = $2::text::xid8, position = $3, updated_at = now()
where group_name = $1
