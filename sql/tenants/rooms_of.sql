-- Returns the free part of tenants' quotas of the rows that engines write.
--
-- in:    :tenants text[]
-- out:   tenant_id text, resource text (instances, tasks or timers), quota bigint or null: no limit, room bigint or null,
--        counted_at timestamptz or null: when an engine counted it; null: it was counted now
-- locks: nothing
-- index: tenants_pkey and tenant_usage_pkey, one probe each; of a small quota as many rows as it allows
select w.tenant_id, r.resource, l.quota, l.room, l.counted_at
from unnest(:tenants::text[]) as w (tenant_id)
cross join (values ('instances'), ('tasks'), ('timers')) as r (resource)
cross join lateral shardclock.room_of(w.tenant_id, array[r.resource]) as l
