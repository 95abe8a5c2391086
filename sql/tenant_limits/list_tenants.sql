-- Lists the tenants that have limits of their own, by name.
--
-- in:    :tenant_id text or null: only this tenant
--        :limit bigint
-- out:   tenant_id text
--        timers_max bigint or null (no limit)
--        payload_bytes_max bigint or null, waiters_max bigint or null, endpoints_max bigint or null, rate_per_s double
--          precision or null, instances_max bigint or null, tasks_max bigint or null, messages_max bigint or null,
--          definitions_max bigint or null
--        schedules_max bigint or null (the default)
--        changed_at timestamptz
-- locks: nothing
-- index: tenants_pkey
select
    t.tenant_id, t.timers_max, t.payload_bytes_max, t.waiters_max, t.endpoints_max, t.rate_per_s,
    t.instances_max, t.tasks_max, t.messages_max, t.definitions_max, t.schedules_max, t.changed_at
from shardclock.tenants t
where :tenant_id::text is null or t.tenant_id = :tenant_id
order by t.tenant_id
limit :limit
