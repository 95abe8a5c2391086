-- Says of targets why a dead letter of theirs would not be called when it is redriven.
--
-- in:    :targets text[], :tenant_ids text[]: one pair for each target and tenant
-- out:   target text, tenant_id text, why text, waits boolean (a delivery waits until an app declares the handler; else it
--        would be given up again), disabled boolean (an endpoint that can be enabled); no row for a target that can be called
-- locks: nothing
-- index: endpoints_pkey, a probe for each webhook; of handlers none, the table is small
select l.target, l.tenant_id, coalesce(c.why, w.why) as why, c.why is null as waits, c.disabled
from unnest(:targets::text[], :tenant_ids::text[]) as l (target, tenant_id)
cross join lateral (
    select
        shardclock.closed_target(l.target, l.tenant_id) as why,
        exists (
            select
            from shardclock.endpoints e
            where e.tenant_id = l.tenant_id and 'webhook:' || e.name = l.target and e.disabled_at is not null
        ) as disabled
) c
cross join lateral (
    select case
        when l.target not like 'webhook:%' and l.target not like 'job:%' and l.target not like 'process:%'
            and l.target <> 'log'
            then shardclock.unknown_target(l.target, l.tenant_id)
    end as why
) w
where coalesce(c.why, w.why) is not null
