-- Adds an endpoint, unless the tenant already has an endpoint with this name.
--
-- in:    :tenant_id text, :name text, :url text, :headers jsonb, :secrets text[], :policy jsonb
-- out:   added boolean: one row; no row if the name is taken
-- locks: the new row
-- index: endpoints_pkey
insert into shardclock.endpoints (tenant_id, name, url, headers, secrets, policy)
values (:tenant_id, :name, :url, :headers, :secrets, :policy)
on conflict (tenant_id, name) do nothing
returning true as added
