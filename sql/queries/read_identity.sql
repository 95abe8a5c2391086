-- Reads whose database this is, and whether a cluster may fire on it.
--
-- in:    $1 identity text: the installation that the cluster is configured for, or ''
-- out:   one row: name text or null (it has none), origin text or null (no cluster has run on it), here text,
--        held_why text (why the cluster may not fire) or null, log_is_ahead boolean
-- locks: nothing
-- index: identity_pkey; command_log_in_order, backwards
select
    i.name,
    i.origin,
    shardclock.origin() as here,
    shardclock.held_why($1) as held_why,
    shardclock.log_is_ahead() as log_is_ahead
from shardclock.identity i
where i.singleton
