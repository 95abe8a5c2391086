-- Returns the free part of tenants' quotas of the rows that engines write.
--
-- in:    :tenants text[]
-- out:   tenant_id text, resource text (instances, tasks or timers), quota bigint or null: no limit, room bigint or null,
--        counted_at timestamptz or null: when an engine counted it; null: it was counted now
-- locks: rows of tenant_usage that no engine has asked for in ten minutes; leaves out rows that others have locked
-- index: tenants_pkey and tenant_usage_pkey, two probes each; of a small quota as many rows as it allows
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
select w.tenant_id, r.resource, l.quota, l.room, l.counted_at
from unnest(:tenants) as w (tenant_id)
cross join (values ('instances'), ('tasks'), ('timers')) as r (resource)
cross join lateral shardclock.room_of(w.tenant_id, array[r.resource]) as l
