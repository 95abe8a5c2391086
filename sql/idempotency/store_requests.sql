-- Stores the responses of requests. Replaces a stored response that is older than 24 hours.
--
-- in:    one array for each column: :tenants text[], :keys text[], :fingerprints bytea[], :statuses integer[],
--        :bodies jsonb[]; and :now timestamptz or null
-- out:   nothing
-- locks: the new rows
-- index: idempotent_requests_pkey of today's slot, one probe for each request
insert into shardclock.idempotent_requests as r (
    created_at, slot, status, tenant_id, idempotency_key, fingerprint, body
)
select c.moment, shardclock.request_slot(c.moment), s.status, s.tenant_id, s.idempotency_key, s.fingerprint, s.body
from (select coalesce(:now::timestamptz, now())) as c (moment)
cross join unnest(
    :tenants::text[], :keys::text[], :fingerprints::bytea[], :statuses::integer[], :bodies::jsonb[]
) as s (tenant_id, idempotency_key, fingerprint, status, body)
on conflict (slot, tenant_id, idempotency_key) do update
set created_at = excluded.created_at,
    status = excluded.status,
    fingerprint = excluded.fingerprint,
    body = excluded.body
where r.created_at <= excluded.created_at - interval '24 hours'
