-- Finds the tenants with the most overdue timers among the oldest overdue timers of each slot.
--
-- in:    :late interval: a timer is overdue if it became due longer ago than this, :limit bigint
-- out:   tenant_id text, timers bigint (at most 3 are counted in each slot), oldest timestamptz (the moment at which
--        the oldest of these timers became due); the tenant with the most timers first
-- locks: nothing
-- index: timers_by_slot, at most 3 rows of each slot
select t.tenant_id, count(*) as timers, min(t.due_date) as oldest
from generate_series(0, 839) as s (slot)
cross join lateral (
    select t.tenant_id, t.due_date
    from shardclock.timers t
    where t.slot = s.slot and t.due_date < now() - :late::interval
    order by t.due_date
    limit 3
) t
group by t.tenant_id
order by timers desc, t.tenant_id
limit :limit::bigint
