-- Reads the installation that owns this database, and the reason if a cluster must not fire.
--
-- in:    :identity text: the installation that the cluster is configured for, or ''
-- out:   one row:
--        name text or null (no name)
--        origin text or null (no cluster has run on the database)
--        here text: the origin that this database would get if a cluster started now
--        hold_reason text or null: the reason if the cluster must not fire
--        foreign_reason text or null: the reason if the database belongs to another installation
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
