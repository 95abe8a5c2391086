-- Counts the pending timers that fall due between each two moments; many are estimated from a sample of the slots.
--
-- in:    $1 edges interval[], ascending, each from now on, $2 now timestamptz or null
-- out:   one row for each stretch between two edges, the later edge not in it: stretch integer from 1, timers bigint,
--        estimated boolean
-- locks: nothing
-- index: timers_by_slot: 10 slots, then all 840, or 60, or the same 10, so that about 170,000 rows are read at most
with bound as materialized (
    select
        array(select coalesce($2::timestamptz, now()) + e.edge from unnest($1::interval[]) as e (edge) order by e.edge) as edges
),
probe as materialized (
    select count(*) as timers
    from bound
    cross join generate_series(0, 839, 84) as s (slot)
    cross join lateral (
        select t.due_date from shardclock.timers t
        where t.slot = s.slot and t.due_date >= bound.edges[1] and t.due_date < bound.edges[cardinality(bound.edges)]
    ) t
),
sample as materialized (
    -- Keys come from one sequence, so the slots are as even as can be.
    select case when probe.timers < 2000 then 1 when probe.timers < 20000 then 14 else 84 end as step from probe
),
counted as (
    select width_bucket(t.due_date, bound.edges) as stretch, count(*) as timers
    from bound
    cross join sample
    cross join lateral generate_series(0, 839, sample.step) as s (slot)
    cross join lateral (
        select t.due_date from shardclock.timers t
        where t.slot = s.slot and t.due_date >= bound.edges[1] and t.due_date < bound.edges[cardinality(bound.edges)]
    ) t
    group by 1
)
select n.stretch, coalesce(counted.timers, 0) * sample.step as timers, sample.step > 1 as estimated
from sample
cross join bound
cross join lateral generate_series(1, cardinality(bound.edges) - 1) as n (stretch)
left join counted on counted.stretch = n.stretch
order by n.stretch
