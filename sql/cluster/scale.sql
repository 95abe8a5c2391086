-- Sets the wanted number of keepers of a role, and ends the role's policy. The leading coordinator then starts or ends
-- keepers.
--
-- in:    :role text, :wanted integer
-- out:   one row: wanted integer, before integer (the number before this call)
-- locks: the role's row
-- index: scale_pkey
with old as materialized (
    select role, wanted as before from shardclock.scale where role = :role for update
)
update shardclock.scale s
set wanted = :wanted, wanted_min = null, wanted_max = null, set_at = now()
from old
where s.role = old.role
returning s.wanted, old.before
