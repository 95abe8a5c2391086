-- Disables an enabled endpoint: workers send nothing to the endpoint, and no new timer may name it.
--
-- in:    :tenant_id text, :name text, :why text
-- out:   disabled boolean: one row; no row if the endpoint does not exist, or is disabled already
-- locks: the endpoint's row
-- index: endpoints_pkey
update shardclock.endpoints e
set disabled_at = now(), disabled_why = :why, changed_at = now()
where e.tenant_id = :tenant_id and e.name = :name and e.disabled_at is null
returning true as disabled
