-- Blocks other transactions that change the limits of the same tenant; does not block readers.
--
-- in:    :tenant_id text
-- out:   nothing
-- locks: an advisory lock of the tenant, until the transaction ends; tenants with the same hash share one lock
-- index: none
select pg_advisory_xact_lock(1936221289, hashtext(:tenant_id)) -- "shli"
