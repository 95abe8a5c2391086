-- Removes a tenant's own limits, so that the limits of the gateways' settings apply to the tenant.
--
-- in:    :tenant_id text
-- out:   the columns of find_limits: the removed limits, in one row; no row if the tenant has no own limits
-- locks: the tenant's row, and the row of its starts in tenant_usage
-- index: tenants_pkey, tenant_usage_pkey
-- include: included/count_starts_again.sql
delete from shardclock.tenants t
where t.tenant_id = :tenant_id
returning
    t.timers_max, t.payload_bytes_max, t.waiters_max, t.endpoints_max, t.rate_per_s,
    t.instances_max, t.tasks_max, t.messages_max, t.definitions_max, t.schedules_max
