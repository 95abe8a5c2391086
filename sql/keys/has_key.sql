-- Returns whether a tenant has an API key, including ended keys.
--
-- in:    :tenant_id text
-- out:   has_key boolean
-- locks: nothing
-- index: none: it reads the whole table, which has a few rows for each tenant, up to the first key of the tenant
select exists (select from shardclock.api_keys k where k.tenant_id = :tenant_id) as has_key
