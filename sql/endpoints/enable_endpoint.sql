-- Enables a disabled endpoint.
--
-- in:    :tenant_id text, :name text
-- out:   enabled boolean: one row; no row if the endpoint does not exist, or is enabled already
-- locks: the endpoint's row
-- index: endpoints_pkey
update shardclock.endpoints e
set disabled_at = null, disabled_why = null, changed_at = now()
where e.tenant_id = :tenant_id and e.name = :name and e.disabled_at is not null
returning true as enabled
