-- Resolves incidents, so that their tokens continue at their nodes. Skips resolved incidents and ended instances.
--
-- in:    :instance_keys bigint[], :tokens bigint[]: the tokens that have stopped
-- out:   instance_key bigint, token bigint, of each resolved incident, in the order of the arrays
-- locks: the new signals
-- index: incidents_pkey, one probe for each incident
select r.instance_key, r.token
from (
    select g.instance_key, g.token, g.number, shardclock.resolve_incident(g.instance_key, g.token) as outcome
    from unnest(:instance_keys::bigint[], :tokens::bigint[]) with ordinality as g (instance_key, token, number)
    -- The incident of a deferred signal can't be resolved here; an operator redrives its dead letter instead.
    where exists (
        select
        from shardclock.incidents n
        where n.instance_key = g.instance_key and n.token = g.token and n.signal_key = 0
    )
    offset 0
) r
where r.outcome = 'SENT'
order by r.number
