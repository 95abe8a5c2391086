-- Replaces the secrets of an endpoint if they are still the secrets that the caller has read.
--
-- in:    :tenant_id text, :name text, :before text[], :secrets text[]
-- out:   changed boolean: one row; no row if the endpoint does not exist, or its secrets have changed
-- locks: the endpoint's row
-- index: endpoints_pkey
update shardclock.endpoints e
set secrets = :secrets, changed_at = now()
where e.tenant_id = :tenant_id and e.name = :name and e.secrets = :before::text[]
returning true as changed
