-- Counts a tenant's pending and paused timers, and the bytes of their payloads, up to a number of timers.
--
-- in:    :tenant_id text (not `default`, because the index leaves out this tenant), :most bigint
-- out:   timers bigint, payload_bytes bigint (of the counted timers, written as JSON)
-- locks: nothing
-- index: timers_by_tenant, at most :most rows
select count(*) as timers, coalesce(sum(octet_length(t.payload::text)), 0)::bigint as payload_bytes
from (
    select t.payload
    from shardclock.timers t
    where t.tenant_id = :tenant_id
        -- The condition on 'default' excludes no timer; without the condition, the planner can't use the partial index.
        and t.tenant_id <> 'default'
    limit :most
) t
