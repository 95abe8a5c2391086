-- Estimates a tenant's pending and paused timers, and the bytes of their payloads, from a sample of slots.
--
-- All keys come from the same sequence, so each slot has about the same number of each tenant's timers. Timers that a
-- client schedules together have consecutive keys, and so are in consecutive slots. For this reason the slots are read
-- in another order.
--
-- in:    :tenant_id text
--        :most bigint: the limit of timers to read, for all tenants together
-- out:   timers bigint
--        payload_bytes bigint: written as JSON
--        estimated boolean: false if the table has fewer than :most timers, so that all timers were counted
-- locks: nothing
-- index: timers_by_slot, at most :most rows
with read as materialized (
    select s.place, t.tenant_id, case when t.tenant_id = :tenant_id then t.payload end as payload
    from generate_series(0, 839) as s (place)
    cross join lateral (
        select t.tenant_id, t.payload
        from shardclock.timers t
        where t.slot = (s.place * 89) % 840
        offset 0 -- reads slot by slot; without it, a join might read the whole table
    ) t
    limit :most
),
size as materialized (
    select count(*) >= :most as is_cut, coalesce(max(r.place), 0) as last from read r
),
share as materialized (
    -- Exclude the last slot, because the scan may have ended within this slot; if there is only one slot, count it as
    -- half a slot.
    select
        s.is_cut,
        case when s.is_cut and s.last > 0 then s.last else 840 end as places,
        case when not s.is_cut then 1.0 when s.last > 0 then 840.0 / s.last else 2 * 840.0 end as weight
    from size s
)
select
    (count(r.place) * s.weight)::bigint as timers,
    (coalesce(sum(octet_length(r.payload::text)), 0) * s.weight)::bigint as payload_bytes,
    s.is_cut as estimated
from share s
left join read r on r.tenant_id = :tenant_id and r.place < s.places
group by s.weight, s.is_cut
