-- Finds endpoints by their names, with all data that a delivery needs.
--
-- in:    :tenants text[], :names text[]: one element of each array for each endpoint
-- out:   tenant_id text, name text, url text, headers text (JSON), secrets text[], policy text (JSON),
--        disabled_at timestamptz or null, disabled_why text or null; an unknown endpoint has no row
-- locks: nothing
-- index: endpoints_pkey, one probe for each endpoint
select
    e.tenant_id, e.name, e.url, e.headers::text as headers, e.secrets, e.policy::text as policy, e.disabled_at,
    e.disabled_why
from unnest(:tenants::text[], :names::text[]) as wanted (tenant_id, name)
join shardclock.endpoints e on e.tenant_id = wanted.tenant_id and e.name = wanted.name
