-- Gives a database that is on hold to an installation, unless some shard fires on it.
--
-- in:    :identity text: the installation, or '' for one without a name
-- out:   one row: name text or null, origin text; or no row: it was not released
-- locks: the identity row
-- index: identity_pkey; holders once; command_log_in_order, backwards
with released as (
    update shardclock.identity i
    set name = nullif(:identity, ''), origin = shardclock.origin(), adopted_at = now()
    where i.singleton
        and shardclock.hold_reason(:identity) is not null
        and not exists (
            select from shardclock.presence h
            where h.alive and shardclock.hold_reason(h.identity) is null
        )
    returning i.name, i.origin
),
recorded as (
    select greatest(max(c.position), (select max(l.position) from shardclock.command_log l)) as position
    from shardclock.consumers c
),
-- Logical replication copies rows and no sequence: the next records would get positions below those of the copied ones.
gone_on as (
    select setval('shardclock.position_seq', r.position)
    from recorded r
    where exists (select from released)
        and r.position > coalesce(pg_sequence_last_value('shardclock.position_seq'), 0)
)
select r.name, r.origin
from released r
where (select count(*) from gone_on) >= 0 -- always true; Postgres runs gone_on only because this reads it
