-- Keeps others from adding endpoints of the same tenant meanwhile; who only reads them waits for nobody.
--
-- in:    :tenant_id text
-- out:   nothing
-- locks: an advisory lock of the tenant, until the transaction ends; two tenants with the same hash have one lock
-- index: none
select pg_advisory_xact_lock(1936221550, hashtext(:tenant_id)) -- "shen"
