-- Replaces the secrets of an endpoint, if they are still those that the caller has read.
--
-- in:    :tenant_id text, :name text, :before text[], :secrets text[]
-- out:   changed boolean: one row, or none if there is no such endpoint, or somebody has changed its secrets
-- locks: the endpoint's row
-- index: endpoints_pkey
update shardclock.endpoints e
set secrets = :secrets, changed_at = now()
where e.tenant_id = :tenant_id and e.name = :name and e.secrets = :before::text[]
returning true as changed
