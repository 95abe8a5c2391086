-- Removes a tenant's own limits, so that the limits of the gateways' settings apply to the tenant.
--
-- in:    :tenant_id text
-- out:   removed boolean: one row; no row if the tenant has no own limits
-- locks: the tenant's row, and the row of its starts in tenant_usage
-- index: tenants_pkey, tenant_usage_pkey
with counted as (
    -- Set had_quota to false, so that the next start counts again. Skip a locked row, because the transaction with the
    -- lock has just counted.
    update shardclock.tenant_usage u
    set had_quota = false
    where (u.tenant_id, u.resource) in (
        select t.tenant_id, t.resource
        from shardclock.tenant_usage t
        where t.tenant_id = :tenant_id::text and t.resource = 'starts'
        for update skip locked
    )
)
delete from shardclock.tenants t
where t.tenant_id = :tenant_id
returning true as removed
