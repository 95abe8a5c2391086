-- Puts the database on hold for all clusters, until an operator releases it.
--
-- in:    :why text: one line of 1 to 200 characters
-- out:   one row: before text (the reason of an operator's earlier hold) or null
-- locks: the identity row
-- index: identity_pkey
with old as materialized (
    select held_why as before from shardclock.identity where singleton for update
)
update shardclock.identity i
set held_why = :why
from old
where i.singleton
returning old.before
