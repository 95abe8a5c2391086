-- Removes a tenant's own limits, so that the limits of the gateways' settings apply to the tenant.
--
-- in:    :tenant_id text
-- out:   removed boolean: one row; no row if the tenant has no own limits
-- locks: the tenant's row, and the row of its starts in tenant_usage
-- index: tenants_pkey, tenant_usage_pkey
-- include: included/count_starts_again.sql
delete from shardclock.tenants t
where t.tenant_id = :tenant_id
returning true as removed
