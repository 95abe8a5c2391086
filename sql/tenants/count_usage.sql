-- Counts the usage of tenants with large quotas anew; a count of zero is forgotten
-- when it has no limit, or no engine has asked for it for an hour. Engines subtract their own writes since the last
-- count: so while they ask, that count stays.
--
-- in:    :age interval: rows that were counted so long ago, :batch integer
-- out:   tenant_id text, resource text, used bigint, of each that was counted
-- locks: the rows that it counts; leaves out rows that others have locked
-- index: tenant_usage_pkey, tenants_pkey; as many rows of each resource as its quota allows
with due as materialized (
    select u.tenant_id, u.resource, u.asked_at
    from shardclock.tenant_usage u
    where u.counted_at < now() - :age::interval
    order by u.counted_at
    limit :batch::integer
    for update skip locked
),
counted as materialized (
    select
        d.tenant_id, d.resource,
        shardclock.used_of(d.tenant_id, d.resource, coalesce(shardclock.quota_of(t, d.resource), 0)) as used,
        shardclock.quota_of(t, d.resource) is null or d.asked_at < now() - interval '1 hour' as is_forgotten
    from due d
    left join shardclock.tenants t on t.tenant_id = d.tenant_id
),
gone as (
    delete from shardclock.tenant_usage u
    using counted c
    where u.tenant_id = c.tenant_id and u.resource = c.resource and c.used = 0 and c.is_forgotten
),
written as (
    update shardclock.tenant_usage u
    -- The begin of the count: rows that are written meanwhile may be missing in it.
    set used = c.used, counted_at = now()
    from counted c
    where u.tenant_id = c.tenant_id and u.resource = c.resource and not (c.used = 0 and c.is_forgotten)
)
select c.tenant_id, c.resource, c.used
from counted c
