-- Finds a tenant's handlers with failing deliveries, in alphabetical order.
--
-- in:    :tenant_id text, :limit bigint
-- out:   target text, failing bigint (the deliveries with a failed attempt, counted up to 100), failing_since
--        timestamptz (the firing or the redrive of the oldest of these deliveries)
-- locks: nothing
-- index: deliveries_failing, up to 100 rows for each handler
select h.target, f.failing, f.failing_since
from shardclock.handlers h
cross join lateral (select h.target, :tenant_id::text as tenant_id) l
cross join lateral (
    -- include: included/failing_of_lane.sql
) f
where f.failing > 0
order by h.target
limit :limit::bigint
