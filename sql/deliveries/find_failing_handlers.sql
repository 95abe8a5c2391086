-- Finds a tenant's handlers with failing deliveries, in alphabetical order.
--
-- in:    :tenant_id text, :limit bigint
-- out:   target text, failing bigint (the deliveries with a failed attempt, counted up to 100), failing_since
--        timestamptz (the firing or the redrive of the oldest of these deliveries)
-- locks: nothing
-- index: deliveries_failing, up to 100 rows for each handler
select h.target, f.failing, f.failing_since
from shardclock.handlers h
cross join lateral (
    select count(*) as failing, min(d.since) as failing_since
    from (
        select coalesce(d.redriven_at, d.fired_at) as since
        from shardclock.deliveries d
        where d.target = h.target and d.tenant_id = :tenant_id::text and d.failed_attempts > 0
        order by d.next_attempt_at
        limit 100
    ) d
) f
where f.failing > 0
order by h.target
limit :limit::bigint
