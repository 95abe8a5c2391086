-- Counts the pending timers in intervals of due dates; estimates a large number from a sample of slots.
--
-- in:    :edges interval[]: the edges of the intervals, ascending, relative to now
--        :now timestamptz or null
--        :recent interval or null: count only timers due after now - recent; null: count from the first edge
--        :full_from integer or null and :full_count integer or null: in :full_count slots, from slot :full_from on,
--          count from the first edge, independent of :recent
-- out:   one row for each pair of consecutive edges (the later edge is excluded):
--        stretch integer: the number of the pair of edges, from 1
--        timers bigint, estimated boolean
--        oldest_s double precision: the time since the first counted timer became due
-- locks: nothing
-- index: timers_by_slot, each slot from the start of its scan: first 10 slots; then, depending on the number of timers
--        in these slots, all 840 slots, 60 slots, or the same 10. So the statement reads at most about 170,000 rows; of
--        more than 7 million timers it reads 1/42
with bound as materialized (
    select
        array(
            select coalesce(:now::timestamptz, now()) + e.edge
            from unnest(:edges::interval[]) as e (edge)
            order by e.edge
        ) as edges
),
begins as materialized (
    -- The due date at which the scan of each slot begins: docs/decisions/0023-fired-rows-that-stay.md.
    select
        s.slot,
        greatest(
            bound.edges[1],
            case
                when (s.slot - :full_from::integer + 840) % 840 >= :full_count::integer
                then coalesce(:now, now()) - :recent::interval
            end
        ) as at
    from bound
    cross join generate_series(0, 839) as s (slot)
),
probe as materialized (
    select count(*) as timers
    from bound
    cross join begins b
    cross join lateral (
        select t.due_date from shardclock.timers t
        where t.slot = b.slot
            and t.due_date >= b.at
            and t.due_date < bound.edges[cardinality(bound.edges)]
        offset 0 -- reads slot by slot; without it, a join might read the whole table
    ) t
    where b.slot % 89 = 0
),
-- include: included/sampled_slots.sql
counted as (
    select width_bucket(t.due_date, bound.edges) as stretch, count(*) as timers, min(t.due_date) as oldest
    from bound
    cross join sample
    join begins b on b.slot % sample.stride = 0 and b.slot / sample.stride < sample.slots
    cross join lateral (
        select t.due_date from shardclock.timers t
        where t.slot = b.slot
            and t.due_date >= b.at
            and t.due_date < bound.edges[cardinality(bound.edges)]
        offset 0
    ) t
    group by 1
)
select
    n.stretch,
    coalesce(counted.timers, 0) * sample.weight as timers,
    sample.weight > 1 as estimated,
    extract(epoch from coalesce(:now, now()) - counted.oldest)::double precision as oldest_s
from sample
cross join bound
cross join lateral generate_series(1, cardinality(bound.edges) - 1) as n (stretch)
left join counted on counted.stretch = n.stretch
order by n.stretch
