-- Estimates a tenant's pending timers, also paused ones, and the bytes of their payloads, from a sample of slots.
--
-- Keys come from one sequence, so each slot has about the same share of each tenant. The stride visits all slots, and
-- neighbours late: a client that schedules several timers at a time gives them neighbouring keys.
--
-- in:    :tenant_id text, :most bigint: so many timers, of whichever tenant, are read at most
-- out:   timers bigint, payload_bytes bigint (written as JSON), estimated boolean (false: the table has fewer than :most
--        timers, and all of them were counted)
-- locks: nothing
-- index: timers_by_slot, at most :most rows
with read as materialized (
    select t.slot, t.tenant_id, case when t.tenant_id = :tenant_id then t.payload end as payload
    from generate_series(0, 839) as s (place)
    cross join lateral (
        select t.slot, t.tenant_id, t.payload
        from shardclock.timers t
        where t.slot = (s.place * 89) % 840
        offset 0 -- reads slot by slot: without it this could be a join that reads the whole table
    ) t
    limit :most
),
size as materialized (
    -- The last slot of a sample was perhaps not read to its end, so it counts as half a slot.
    select count(*) >= :most as is_cut, 840 / (count(distinct r.slot) - 0.5) as weight from read r
)
select
    (count(r.slot) * w.weight)::bigint as timers,
    (coalesce(sum(octet_length(r.payload::text)), 0) * w.weight)::bigint as payload_bytes,
    w.is_cut as estimated
from (select s.is_cut, case when s.is_cut then s.weight else 1.0 end as weight from size s) w
left join read r on r.tenant_id = :tenant_id
group by w.weight, w.is_cut
