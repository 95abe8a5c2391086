-- Puts a restored database on hold for all clusters, in the transaction that restores it. On its own server and in its
-- own database it is no copy, so nothing else would keep a waiting cluster from firing. An earlier hold stays.
--
-- in:    nothing
-- out:   nothing
-- locks: the identity row
-- index: identity_pkey
update shardclock.identity i
set held_why = 'restored from a dump'
where i.singleton and i.held_why is null
