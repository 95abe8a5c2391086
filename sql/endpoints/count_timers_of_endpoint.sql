-- Counts the pending and paused timers that name an endpoint, up to a limit.
--
-- in:    :tenant_id text, :name text, :most bigint
-- out:   timers bigint
-- locks: nothing
-- index: timers_by_target, or timers_by_tenant
select count(*) as timers
from (
    select
    from shardclock.timers t
    where t.tenant_id = :tenant_id
        and t.target = 'webhook:' || :name::text
        -- The condition is always true; without it the planner can't use the partial index timers_by_target.
        and t.target <> 'log'
    limit :most::bigint
) t
