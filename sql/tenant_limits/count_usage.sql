-- Updates the usage counts of tenants with large quotas. Deletes a count of zero if its resource has no limit, or if no
-- engine has read the count for an hour.
--
-- in:    :age interval: only counts that are older than this, :batch integer
-- out:   tenant_id text, resource text, used bigint, of each new count
-- locks: the rows of tenant_usage that it writes; skips locked rows
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
        shardclock.usage_of(d.tenant_id, d.resource, coalesce(shardclock.quota_of(t, d.resource), 0)) as used,
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
    -- The stored time is the start of the count, because the count may miss rows that are written during the count.
    set used = c.used, counted_at = now()
    from counted c
    where u.tenant_id = c.tenant_id and u.resource = c.resource and not (c.used = 0 and c.is_forgotten)
)
select c.tenant_id, c.resource, c.used
from counted c
