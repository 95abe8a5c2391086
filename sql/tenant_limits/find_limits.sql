-- Finds the limits of a tenant that were set with set_limits.
--
-- in:    :tenant_id text
-- out:   one row; no row if the tenant has no own limits:
--        timers_max bigint or null (no limit)
--        payload_bytes_max bigint or null, waiters_max bigint or null, endpoints_max bigint or null, rate_per_s double
--          precision or null
--        for processes (null: the default):
--        instances_max bigint or null, tasks_max bigint or null, messages_max bigint or null, definitions_max bigint or
--          null
--        schedules_max bigint or null (the default)
-- locks: nothing
-- index: tenants_pkey, one probe
select t.timers_max, t.payload_bytes_max, t.waiters_max, t.endpoints_max, t.rate_per_s,
    t.instances_max, t.tasks_max, t.messages_max, t.definitions_max, t.schedules_max
from shardclock.tenants t
where t.tenant_id = :tenant_id
