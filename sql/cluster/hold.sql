-- Puts the database on hold, for all clusters, until it is released.
--
-- in:    :why text, 1 to 200 characters of one line
-- out:   one row: before text (why an operator had put it on hold before) or null
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
