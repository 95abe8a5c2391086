-- Ends an operator's hold and makes the caller's installation the owner of the database. Does nothing if the database
-- has another owner and this owner's cluster is running.
--
-- in:    :identity text: the installation, or '' for one without a name
-- out: one row: name text or null, origin text; no row if the hold was not ended
-- locks: the identity row
-- index: identity_pkey; holders once; command_log_in_order, backwards
with released as (
    update shardclock.identity i
    set held_why = null,
        name = case when f.is_ours then i.name else nullif(:identity, '') end,
        origin = case when f.is_ours then i.origin else shardclock.origin() end,
        adopted_at = case when f.is_ours then i.adopted_at else now() end
    from (
        select
            shardclock.foreign_reason(:identity) is null
            -- A caller with an empty :identity does not change the owner, unless the database is a copy.
            or (:identity = '' and o.held_why is not null and o.origin = shardclock.origin()) as is_ours
        from shardclock.identity o
        where o.singleton
    ) f
    where i.singleton
        and (f.is_ours or not exists (
            select from shardclock.presence h
            where h.alive and shardclock.foreign_reason(h.identity) is null
        ))
        and shardclock.hold_reason(:identity) is not null
    returning i.name, i.origin
),
recorded as (
    select greatest(max(c.position), (select max(l.position) from shardclock.command_log l)) as position
    from shardclock.consumers c
),
-- Moves the sequence beyond the copied records, because logical replication copies rows but no sequences.
gone_on as (
    select setval('shardclock.position_seq', r.position)
    from recorded r
    where exists (select from released)
        and r.position > coalesce(pg_sequence_last_value('shardclock.position_seq'), 0)
)
select r.name, r.origin
from released r
where (select count(*) from gone_on) >= 0 -- always true; without this condition Postgres would not execute gone_on
