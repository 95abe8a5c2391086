-- Lists the targets that a tenant's service tasks may name: declared handlers and endpoints.
--
-- in:    :tenant_id text
-- out:   target text: handlers that are not withdrawn, and the tenant's endpoints, also disabled endpoints
-- locks: nothing
-- index: endpoints_pkey; of handlers none, the table is small
select h.target
from shardclock.handlers h
where h.withdrawn_at is null
union all
select 'webhook:' || e.name
from shardclock.endpoints e
where e.tenant_id = :tenant_id::text
