-- Sets how many shards are wanted, and ends any policy; the leading coordinator acts on it.
--
-- in:    :shards_wanted integer
-- out:   one row: shards_wanted integer, before integer
-- locks: the coordination row
-- index: coordination_pkey
with old as materialized (
    select shards_wanted as before from shardclock.coordination where singleton for update
)
update shardclock.coordination c
set shards_wanted = :shards_wanted, shards_min = null, shards_max = null
from old
where c.singleton
returning c.shards_wanted, old.before
