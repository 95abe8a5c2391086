-- Lists endpoints, without secrets and headers, and how many deliveries each has on the way.
--
-- in:    :tenant_id text or null: only this tenant's, :name text or null: only that of this name, :limit bigint
-- out:   tenant_id text, name text, url text, policy text (JSON), added_at timestamptz, changed_at timestamptz,
--        disabled_at timestamptz or null, disabled_why text or null, waiting bigint (deliveries on the way, counted up
--        to 1,000)
-- locks: nothing
-- index: endpoints_pkey; deliveries_by_lane, up to 1,000 rows for each endpoint
select
    e.tenant_id, e.name, e.url, e.policy::text as policy, e.added_at, e.changed_at, e.disabled_at, e.disabled_why,
    (
        select count(*)
        from (
            select
            from shardclock.deliveries d
            where d.target = 'webhook:' || e.name and d.tenant_id = e.tenant_id
            limit 1000
        ) d
    ) as waiting
from shardclock.endpoints e
where (:tenant_id::text is null or e.tenant_id = :tenant_id)
    and (:name::text is null or e.name = :name)
order by e.tenant_id, e.name
limit :limit
