-- Lists endpoints without secrets and headers, and counts the open deliveries, the failing deliveries and the last
-- attempts of each endpoint.
--
-- in:    :tenant_id text or null: only this tenant's endpoints
--        :name text or null: only endpoints of this name
--        :after_name text or null: only names after this one
--        :disabled_or_failing boolean: only endpoints that are disabled or have a failing delivery
--        :limit bigint
-- out:   tenant_id text, name text, url text
--        policy text: JSON
--        added_at timestamptz, changed_at timestamptz, disabled_at timestamptz or null, disabled_why text or null
--        waiting bigint: open deliveries, counted up to 1,000
--        failing bigint: open deliveries with a failed attempt, counted up to 100
--        failing_since timestamptz or null: the firing or the redrive of the oldest failing delivery
--        attempts bigint: the stored attempts, counted up to 20
--        accepted bigint: how many of these attempts the endpoint accepted
-- locks: nothing
-- index: endpoints_pkey; deliveries_by_lane, up to 1,000 rows for each endpoint; deliveries_failing, up to 100 rows;
--        endpoint_attempts_pkey, up to 20 rows
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
    ) as waiting,
    f.failing, f.failing_since, a.attempts, a.accepted
from shardclock.endpoints e
cross join lateral (select 'webhook:' || e.name as target, e.tenant_id) l
cross join lateral (
    -- include: included/failing_of_lane.sql
) f
cross join lateral (
    select count(*) as attempts, count(*) filter (where a.failure is null) as accepted
    from (
        select a.failure
        from shardclock.endpoint_attempts a
        -- A worker may have stored an attempt of a removed endpoint with the same name.
        where a.tenant_id = e.tenant_id and a.name = e.name and a.ended_at >= e.added_at
            and a.timer_key <> 0 -- a test send does not count as an attempt
        order by a.ended_at desc, a.timer_key desc
        limit 20
    ) a
) a
where (:tenant_id::text is null or e.tenant_id = :tenant_id)
    and (:name::text is null or e.name = :name)
    and (:after_name::text is null or e.name > :after_name)
    and (not :disabled_or_failing::boolean or e.disabled_at is not null or f.failing > 0)
order by e.tenant_id, e.name
limit :limit
