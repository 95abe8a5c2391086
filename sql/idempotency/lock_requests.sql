-- Locks requests without waiting. If two calls contain the same request, only one of the calls gets the lock.
--
-- Two requests with the same hash (one pair in four billion) share a lock. While one of these requests is in flight,
-- the second request may get the response "in flight"; after a retry its client gets the correct response.
--
-- in:    one element of each array for each request:
--        :tenants text[], :keys text[]
-- out:   one row for each request, in the order of the arrays: locked boolean
-- locks: an advisory lock for each request that is not in flight, until the transaction ends
-- index: none
select pg_try_advisory_xact_lock(1936222564, hashtext(w.tenant_id || e'\n' || w.idempotency_key)) as locked -- "shid"
from unnest(:tenants::text[], :keys::text[]) with ordinality as w (tenant_id, idempotency_key, number)
order by w.number
