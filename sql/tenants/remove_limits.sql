-- Removes the limits of a tenant's own: from now on it has those of the gateways' settings.
--
-- in:    :tenant_id text
-- out:   removed boolean: one row, or none if it has no limits of its own
-- locks: the tenant's row
-- index: tenants_pkey
delete from shardclock.tenants t
where t.tenant_id = :tenant_id
returning true as removed
