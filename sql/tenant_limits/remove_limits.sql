-- Removes a tenant's own limits, so that the limits of the gateways' settings apply to the tenant.
--
-- in:    :tenant_id text
-- out:   the removed limits, one row; no row if the tenant has no own limits: timers_max bigint or null: no limit,
--        payload_bytes_max bigint or null, waiters_max bigint or null, endpoints_max bigint or null, rate_per_s double
--        precision or null, instances_max bigint or null: the default, tasks_max bigint or null, messages_max bigint or
--        null, definitions_max bigint or null, schedules_max bigint or null: the default
-- locks: the tenant's row, and the row of its starts in tenant_usage
-- index: tenants_pkey, tenant_usage_pkey
-- include: included/count_starts_again.sql
delete from shardclock.tenants t
where t.tenant_id = :tenant_id
returning
    t.timers_max, t.payload_bytes_max, t.waiters_max, t.endpoints_max, t.rate_per_s,
    t.instances_max, t.tasks_max, t.messages_max, t.definitions_max, t.schedules_max
