-- Changes an endpoint: its URL, its headers, or what was said of its policy. What is on its way to it, its secrets and
-- its state stay.
--
-- in:    :tenant_id text, :name text, :url text or null: as it is, :headers jsonb or null: as they are; else all that
--        there are from now on, :policy jsonb: the keys to change
-- out:   changed boolean: one row, or none if there is no such endpoint, or it is so already
-- locks: the endpoint's row
-- index: endpoints_pkey
update shardclock.endpoints e
set url = coalesce(:url::text, e.url),
    headers = coalesce(:headers::jsonb, e.headers),
    policy = e.policy || :policy::jsonb,
    changed_at = now()
where e.tenant_id = :tenant_id
    and e.name = :name
    and (e.url, e.headers, e.policy)
        is distinct from (coalesce(:url, e.url), coalesce(:headers, e.headers), e.policy || :policy)
returning true as changed
