-- Takes the lock of each request, without waiting: of two that are sent at once, one does not get it.
--
-- Two requests with the same hash have one lock. So a request may be told that it is in flight, though another one is:
-- one in four billion, and it is right when it is sent again.
--
-- in:    :tenants text[], :keys text[]: one place in both for each request
-- out:   locked boolean, one row for each request, in their order
-- locks: an advisory lock for each request that nobody else has in hand, until the transaction ends
-- index: none
select pg_try_advisory_xact_lock(1936222564, hashtext(w.tenant_id || e'\n' || w.idempotency_key)) as locked -- "shid"
from unnest(:tenants::text[], :keys::text[]) with ordinality as w (tenant_id, idempotency_key, number)
order by w.number
