-- Changes an endpoint's URL, its headers, or the given keys of its policy. Does not change the endpoint's open
-- deliveries, its secrets or its state.
--
-- in:    :tenant_id text, :name text
--        :url text: null: no change
--        :headers jsonb: replaces all headers; null: no change
--        :policy jsonb: only the keys to change
-- out:   changed boolean: one row; no row if the endpoint does not exist, or has these values already
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
