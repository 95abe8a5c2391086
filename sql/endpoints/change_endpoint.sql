-- Lets an endpoint lead to another URL. What is on its way to it, its secrets and its state stay.
--
-- in:    :tenant_id text, :name text, :url text
-- out:   changed boolean: one row, or none if there is no such endpoint, or it leads there already
-- locks: the endpoint's row
-- index: endpoints_pkey
update shardclock.endpoints e
set url = :url, changed_at = now()
where e.tenant_id = :tenant_id and e.name = :name and e.url <> :url
returning true as changed
