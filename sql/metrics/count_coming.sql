-- Counts the overdue timers and the timers of the next 30 minutes, by minute and target; estimates a large number from
-- a sample of slots, as count_due does.
--
-- in:    :tenant_id text or null (all tenants)
--        :with_jobs boolean: false: leave out the timers of jobs
--        :now timestamptz or null
-- out:   one row for each minute and target with timers:
--        minute integer: 0 for overdue timers; 1 to 30 for the minutes from now on
--        target text: one of the five targets with the most timers; null: all other targets
--        timers bigint, estimated boolean
--        oldest_due_at timestamptz: when the first of these timers is due; if estimated, the first timer of the sample
-- locks: nothing
-- index: timers_by_slot, each slot from its oldest row to the end of the 30 minutes: first 10 slots; then, depending on
--        the number of timers in them, all 840 slots, 60 slots, or the same 10
with clock as materialized (
    select c.moment, c.moment + interval '30 minutes' as ends
    from (select coalesce(:now::timestamptz, now())) as c (moment)
),
probe as materialized (
    select count(*) as timers
    from clock
    cross join generate_series(0, 839) as s (slot)
    cross join lateral (
        select t.due_date from shardclock.timers t
        where t.slot = s.slot
            and t.due_date < clock.ends
        offset 0 -- reads slot by slot; without it, a join might read the whole table
    ) t
    where s.slot % 89 = 0
),
-- include: included/sampled_slots.sql
counted as materialized (
    select
        greatest(0, 1 + floor(extract(epoch from t.due_date - clock.moment) / 60))::integer as minute,
        t.target, count(*) * sample.weight as timers, sample.weight > 1 as estimated, min(t.due_date) as oldest
    from clock
    cross join sample
    join generate_series(0, 839) as s (slot) on s.slot % sample.stride = 0 and s.slot / sample.stride < sample.slots
    cross join lateral (
        select t.due_date, t.target from shardclock.timers t
        where t.slot = s.slot
            and t.due_date < clock.ends
            and (:tenant_id::text is null or t.tenant_id = :tenant_id)
            and (:with_jobs::boolean or t.target not like 'job:%')
        offset 0
    ) t
    group by 1, 2, 4, sample.weight
),
named as materialized (
    select c.target
    from counted c
    group by c.target
    order by sum(c.timers) desc, c.target
    limit 5
)
select
    c.minute, n.target, sum(c.timers)::bigint as timers, bool_or(c.estimated) as estimated, min(c.oldest) as oldest_due_at
from counted c
left join named n on n.target = c.target
group by 1, 2
order by 1, 2
