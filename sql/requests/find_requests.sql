-- Finds what was answered to requests within the last 24 hours, by the clock of this moment.
--
-- By the time at which the transaction began, a transaction that began before midnight would not look into the slot of
-- one that began after midnight and has committed since.
--
-- in:    :tenants text[], :keys text[]: one place in both for each request, :now timestamptz or null
-- out:   number bigint (its place, from 1), fingerprint bytea, status integer, body text (JSON); no row for a request
--        that has no answer yet
-- locks: nothing; the slot that is neither today's nor yesterday's is not even opened
-- index: idempotent_requests_pkey of these two slots, one probe in each for each request
select f.number, f.fingerprint, f.status::integer as status, f.body::text as body
from shardclock.find_requests(:tenants::text[], :keys::text[], coalesce(:now::timestamptz, clock_timestamp())) as f
    (number, fingerprint, status, body)
