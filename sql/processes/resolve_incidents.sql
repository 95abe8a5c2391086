-- Resolves incidents: their tokens go on where they stopped. What is resolved already, or ended, is left out.
--
-- in:    :instance_keys bigint[], :tokens bigint[]: the tokens that have stopped
-- out:   instance_key bigint, token bigint: of those that were resolved, the same order
-- locks: nothing but the signals that it sends
-- index: incidents_pkey, one probe each
select r.instance_key, r.token
from (
    select g.instance_key, g.token, g.number, shardclock.resolve_incident(g.instance_key, g.token) as outcome
    from unnest(:instance_keys::bigint[], :tokens::bigint[]) with ordinality as g (instance_key, token, number)
    -- A signal that no engine could take is redriven, and not resolved.
    where exists (
        select
        from shardclock.incidents n
        where n.instance_key = g.instance_key and n.token = g.token and n.signal_key = 0
    )
    offset 0
) r
where r.outcome = 'SENT'
order by r.number
