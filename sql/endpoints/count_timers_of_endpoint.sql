-- Counts the pending timers that name an endpoint, also those that are paused, up to a limit.
--
-- in:    :tenant_id text, :name text, :most bigint
-- out:   timers bigint
-- locks: nothing
-- index: timers_by_tenant; of the tenant `default` the whole table, so only an operator's command sends it
select count(*) as timers
from (
    select
    from shardclock.timers t
    where t.tenant_id = :tenant_id and t.target = 'webhook:' || :name::text
    limit :most::bigint
) t
