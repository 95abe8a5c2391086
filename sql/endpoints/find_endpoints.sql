-- Finds endpoints by their names, with what is needed to send.
--
-- in:    :tenants text[], :names text[]: one place in both for each endpoint
-- out:   tenant_id text, name text, url text, headers text (JSON), secrets text[], policy text (JSON),
--        disabled_at timestamptz or null, disabled_why text or null; no row for one that does not exist
-- locks: nothing
-- index: endpoints_pkey, one probe for each
select
    e.tenant_id, e.name, e.url, e.headers::text as headers, e.secrets, e.policy::text as policy, e.disabled_at,
    e.disabled_why
from unnest(:tenants::text[], :names::text[]) as wanted (tenant_id, name)
join shardclock.endpoints e on e.tenant_id = wanted.tenant_id and e.name = wanted.name
