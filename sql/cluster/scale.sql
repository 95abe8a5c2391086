-- Sets how many keepers of a role are wanted, and ends any policy; the leading coordinator acts on it.
--
-- in:    :role text, :wanted integer
-- out:   one row: wanted integer, before integer
-- locks: the role's row
-- index: scale_pkey
with old as materialized (
    select role, wanted as before from shardclock.scale where role = :role for update
)
update shardclock.scale s
set wanted = :wanted, wanted_min = null, wanted_max = null
from old
where s.role = old.role
returning s.wanted, old.before
