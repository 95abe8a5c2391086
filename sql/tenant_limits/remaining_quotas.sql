-- Returns the unused quotas of tenants, for the resources that engines write.
--
-- in:    :tenants text[]
-- out:   tenant_id text
--        resource text: instances, tasks or timers
--        quota bigint or null (no limit)
--        remaining bigint or null
--        counted_at timestamptz or null: the time of the stored count; null: this call counted
-- locks: rows of tenant_usage that no engine has read for ten minutes; skips locked rows
-- index: tenants_pkey and tenant_usage_pkey, two probes each; for a small quota, up to that number of the resource's
--        rows
with asked as (
    update shardclock.tenant_usage u
    set asked_at = now()
    where (u.tenant_id, u.resource) in (
        select t.tenant_id, t.resource
        from shardclock.tenant_usage t
        where t.tenant_id = any (:tenants::text[]) and t.asked_at < now() - interval '10 minutes'
        for update skip locked
    )
)
select w.tenant_id, r.resource, l.quota, l.remaining, l.counted_at
from unnest(:tenants) as w (tenant_id)
cross join (values ('instances'), ('tasks'), ('timers')) as r (resource)
cross join lateral shardclock.remaining_quota(w.tenant_id, array[r.resource]) as l
