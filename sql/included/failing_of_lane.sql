-- The number of the failing deliveries of the lane `l`, counted up to 100, and the firing or the redrive of the oldest
-- of these deliveries.
select count(*) as failing, min(d.since) as failing_since
from (
    select coalesce(d.redriven_at, d.fired_at) as since
    from shardclock.deliveries d
    where d.target = l.target and d.tenant_id = l.tenant_id and d.failed_attempts > 0
    limit 100
) d
