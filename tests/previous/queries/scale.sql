-- Sets how many shards are wanted; the leading coordinator acts on it.
--
-- in:    $1 shards_wanted integer
-- out:   one row: shards_wanted integer, before integer
-- locks: the coordination row
-- index: coordination_pkey
with old as materialized (
    select shards_wanted as before from shardclock.coordination where singleton for update
)
update shardclock.coordination c
set shards_wanted = $1
from old
where c.singleton
returning c.shards_wanted, old.before
