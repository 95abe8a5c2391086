-- Counts the endpoints of a tenant, including disabled ones.
--
-- in:    :tenant_id text
-- out:   endpoints bigint
-- locks: nothing
-- index: endpoints_pkey
select count(*) as endpoints
from shardclock.endpoints e
where e.tenant_id = :tenant_id
