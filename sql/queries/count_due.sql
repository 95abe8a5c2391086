-- Counts the pending timers that fall due between each two moments; many are estimated from a sample of the slots.
--
-- in:    $1 edges interval[], ascending, each from now on, $2 now timestamptz or null,
--        $3 lately interval or null: only what fell due later than this long ago, but for some slots: $4 first_slot
--        integer or null and those that follow it, $5 slots integer or null of them
-- out:   one row for each stretch between two edges, the later edge not in it: stretch integer from 1, timers bigint,
--        estimated boolean, oldest_s double precision (how long ago the first of those that were counted fell due)
-- locks: nothing
-- index: timers_by_slot, each slot from where the look begins: 10 slots, then all 840, or 60, or the same 10, so that
--        about 170,000 rows are read at most, of more than 7 million timers one in 42
with bound as materialized (
    select
        array(select coalesce($2::timestamptz, now()) + e.edge from unnest($1::interval[]) as e (edge) order by e.edge) as edges
),
begins as materialized (
    -- Where the look begins in each slot: docs/decisions/0023-fired-rows-that-stay.md.
    select
        s.slot,
        greatest(
            bound.edges[1],
            case when (s.slot - $4::integer + 840) % 840 >= $5::integer then coalesce($2, now()) - $3::interval end
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
        offset 0 -- slot by slot: a join would read the whole table
    ) t
    where b.slot % 89 = 0
),
sample as materialized (
    -- Keys come from one sequence, so the slots are as even as can be. Clients that schedule several timers at a time
    -- give neighbouring keys different due dates: the strides share no factor with 840, or the slots would all be even,
    -- say, and see only every other kind.
    select * from (
        values (0, 1, 1, 840), (2000, 14, 13, 60), (20000, 84, 89, 10)
    ) as tier (probed, weight, stride, slots)
    where tier.probed <= (select probe.timers from probe)
    order by tier.probed desc
    limit 1
),
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
    extract(epoch from coalesce($2, now()) - counted.oldest)::double precision as oldest_s
from sample
cross join bound
cross join lateral generate_series(1, cardinality(bound.edges) - 1) as n (stretch)
left join counted on counted.stretch = n.stretch
order by n.stretch
