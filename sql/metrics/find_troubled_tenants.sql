-- Finds the tenants with dead letters or with failing endpoints, except one tenant.
--
-- in:    :tenant_id text: the tenant that is left out
--        :limit bigint
--        :endpoints_max integer: the limit of pairs (of a tenant and a target) with failing deliveries to read
-- out:   tenant_id text
--        endpoints bigint: the tenant's endpoints with a failing delivery
--        failing_since timestamptz or null: the firing or the redrive of the oldest of the first 100 failing deliveries
--          of each endpoint
--        dead_letters bigint: counted up to 1,000
--        at most :limit tenants, by tenant_id
-- locks: nothing
-- index: dead_letters_by_tenant, one probe for each tenant with dead letters, and up to 1,000 rows for each tenant of
--        the result; deliveries_failing, one probe for each pair, and up to 100 rows for each pair; endpoints_pkey, one
--        probe for each pair
with recursive dying (tenant_id, number) as (
    (
        select d.tenant_id, 1
        from shardclock.dead_letters d
        where (d.target > '') is true
        order by d.tenant_id
        limit 1
    )
    union all
    select n.tenant_id, f.number + 1
    from dying f
    cross join lateral (
        select d.tenant_id
        from shardclock.dead_letters d
        where d.tenant_id > f.tenant_id and (d.target > '') is true
        order by d.tenant_id
        limit 1
    ) n
    -- Read one tenant more than the limit, because :tenant_id is left out of the result.
    where f.number <= :limit::bigint
),
failing (target, tenant_id, number) as (
    (
        select d.target, d.tenant_id, 1
        from shardclock.deliveries d
        where d.target >= 'webhook:' and d.failed_attempts > 0
        order by d.target, d.tenant_id
        limit 1
    )
    union all
    select n.target, n.tenant_id, f.number + 1
    from failing f
    cross join lateral (
        select d.target, d.tenant_id
        from shardclock.deliveries d
        where (d.target, d.tenant_id) > (f.target, f.tenant_id) and d.failed_attempts > 0
        order by d.target, d.tenant_id
        limit 1
    ) n
    where f.number < :endpoints_max::integer
),
endpoint as materialized (
    select l.tenant_id, f.failing_since
    from failing l
    join shardclock.endpoints e on e.tenant_id = l.tenant_id and e.name = substr(l.target, 9)
    cross join lateral (
        -- include: included/failing_of_lane.sql
    ) f
    where l.target like 'webhook:%'
),
troubled as materialized (
    select t.tenant_id
    from (select d.tenant_id from dying d union select e.tenant_id from endpoint e) t
    where t.tenant_id <> :tenant_id
    order by t.tenant_id
    limit :limit::bigint
)
select t.tenant_id, e.endpoints, e.failing_since, l.dead_letters
from troubled t
cross join lateral (
    select count(*) as endpoints, min(e.failing_since) as failing_since from endpoint e where e.tenant_id = t.tenant_id
) e
cross join lateral (
    select count(*) as dead_letters
    from (
        select
        from shardclock.dead_letters d
        where d.tenant_id = t.tenant_id and (d.target > '') is true
        limit 1000
    ) d
) l
order by t.tenant_id
