-- Reads which installation this database belongs to, and whether a cluster may fire on it.
--
-- in:    :identity text: the installation that the cluster is configured for, or ''
-- out:   one row: name text or null (it has none), origin text or null (no cluster has run on it), here text (what
--        origin would be now), hold_reason text (why the cluster may not fire) or null, foreign_reason text (why
--        this is not its database) or null
-- locks: nothing
-- index: identity_pkey
select
    i.name,
    i.origin,
    shardclock.origin() as here,
    shardclock.hold_reason(:identity) as hold_reason,
    shardclock.foreign_reason(:identity) as foreign_reason
from shardclock.identity i
where i.singleton
