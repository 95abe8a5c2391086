-- Finds the pending timers with the given names: the sizes of their payloads, and which of them are schedules.
--
-- in:    :tenant_id text, :names text[]
-- out:   name text, payload_bytes bigint (written as JSON), schedules bigint (1 or 0); a name without a pending timer
--        has no row
-- locks: nothing
-- index: timers_by_name_prefix, one probe for each name
select t.name, t.payload_bytes, t.schedules
from unnest(:names::text[]) as n (name)
cross join lateral (
    select
        t.name, coalesce(octet_length(t.payload::text), 0)::bigint as payload_bytes,
        (t.schedule is not null)::int::bigint as schedules
    from shardclock.timers t
    where t.tenant_id = :tenant_id and t.name = n.name
    limit 1
) t
