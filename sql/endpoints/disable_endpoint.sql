-- Disables an endpoint that works: nothing is sent to it, and no new timer may name it.
--
-- in:    :tenant_id text, :name text, :url text or null: only if it still leads there, :why text
-- out:   disabled boolean: one row, or none if there is no such endpoint, or it is disabled
-- locks: the endpoint's row
-- index: endpoints_pkey
update shardclock.endpoints e
set disabled_at = now(), disabled_why = :why, changed_at = now()
where e.tenant_id = :tenant_id
    and e.name = :name
    and e.disabled_at is null
    and e.url = coalesce(:url::text, e.url)
returning true as disabled
