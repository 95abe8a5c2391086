-- Finds the stored responses of the 24 hours before this call. Uses the time of the call instead of the time when the
-- transaction began. Otherwise a transaction that began before midnight would miss responses from after midnight.
--
-- in:    one element of each array for each request:
--        :tenants text[], :keys text[]
--        :now timestamptz or null
-- out:   number bigint: the request's number, from 1
--        fingerprint bytea, status integer
--        body text: JSON
--        a request without a stored response has no row
-- locks: nothing; the function reads only the slots of today and yesterday
-- index: idempotent_requests_pkey of these two slots, one probe of each slot for each request
select f.number, f.fingerprint, f.status::integer as status, f.body::text as body
from shardclock.find_requests(:tenants::text[], :keys::text[], coalesce(:now::timestamptz, clock_timestamp())) as f
    (number, fingerprint, status, body)
