-- Counts the pending timers that name an endpoint, also those that are paused, up to a limit.
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
        -- Said so that the planner can see that the index has all of them.
        and t.target <> 'log'
    limit :most::bigint
) t
