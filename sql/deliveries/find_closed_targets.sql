-- Finds the given targets that no worker would call for a redriven dead letter, with the reasons.
--
-- in:    :targets text[]
--        :tenant_ids text[]: one pair for each target and tenant
-- out:   target text, tenant_id text, why text
--        waits boolean: true: a redriven delivery waits until an app declares the handler; false: it is given up again
--        disabled boolean: true: an endpoint that can be enabled
--        a target that can be called has no row
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
            where e.tenant_id = l.tenant_id
                and l.target in ('webhook:' || e.name, 'webhook:notify/' || e.name)
                and e.disabled_at is not null
        ) as disabled
) c
cross join lateral (
    select case
        when l.target not like 'webhook:%' and l.target not like 'job:%' and l.target not like 'process:%'
            and l.target <> 'log'
            then (shardclock.unknown_target(l.target, l.tenant_id))[2]
    end as why
) w
where coalesce(c.why, w.why) is not null
