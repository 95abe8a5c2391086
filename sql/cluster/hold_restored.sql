-- Puts a restored database on hold for all clusters, in the transaction that restores it. A database that was restored
-- in place does not count as a copy, so without this hold a waiting cluster would fire its timers. An existing hold
-- does not change.
--
-- in:    nothing
-- out:   nothing
-- locks: the identity row
-- index: identity_pkey
update shardclock.identity i
set held_why = 'restored from a dump'
where i.singleton and i.held_why is null
