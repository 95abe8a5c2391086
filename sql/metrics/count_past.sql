-- Counts the firings, the deliveries and the dead letters of each of the last minutes; estimates large numbers from a
-- sample of the log.
--
-- in:    :tenant_id text or null (all tenants)
--        :target text or null (all targets)
--        :with_jobs boolean: false: leave out the timers of jobs
--        :minutes integer
--        :late interval: a firing with a greater lag is late
--        :now timestamptz or null
-- out:   one row for each minute with a record:
--        began_at timestamptz: the start of the minute
--        fired bigint: including late firings
--        late bigint
--        latest_s double precision or null: the greatest lag of a firing
--        delivered bigint
--        died bigint: new dead letters
--        estimated boolean
-- locks: nothing
-- index: command_log_in_order: one record for each step of a binary search; then at most 10,000 records: all records of
--        these minutes, or 20 records at each of 500 equally distant positions
with recursive clock as materialized (
    select date_trunc('minute', c.moment) - (:minutes::integer - 1) * interval '1 minute' as since
    from (select coalesce(:now::timestamptz, now())) as c (moment)
),
search (low, high) as (
    select e.first, e.last from shardclock.log_ends e
    union all
    select
        case when m.recorded_at < clock.since then m.middle + 1 else s.low end,
        case when m.recorded_at < clock.since then s.high else m.middle end
    from search s
    cross join clock
    cross join lateral (
        select n.middle, t.recorded_at
        from (select s.low + (s.high - s.low) / 2) as n (middle)
        cross join lateral (
            select l.recorded_at from shardclock.log_times l where l.position >= n.middle order by l.position limit 1
        ) t
    ) m
    where s.low < s.high
),
span as materialized (
    select s.low as first, e.last, e.last - s.low + 1 as records, e.last - s.low >= 10000 as estimated
    from (select max(s.low) as low from search s) s
    cross join shardclock.log_ends e
    where s.low is not null
),
section as materialized (
    select
        span.first + n * span.records / 500 as first,
        case when span.estimated then 20 else span.records end as length,
        case when span.estimated then span.records / 10000.0 else 1 end as weight,
        span.estimated
    from span
    cross join generate_series(0, case when span.estimated then 499 else 0 end) n
),
seen as materialized (
    select
        date_trunc('minute', r.recorded_at) as began_at,
        r.intent,
        case
            when r.intent = 'TRIGGERED' then extract(epoch from r.recorded_at - shardclock.late_since(
                r.due_date, r.created_at, (r.detail ->> 'changed_at')::timestamptz, r.occurrence
            ))::double precision
        end as late_s,
        s.weight,
        s.estimated
    from section s
    cross join lateral (
        select l.recorded_at, l.intent, l.due_date, l.created_at, l.detail, l.occurrence
        from shardclock.command_log l
        where l.position >= s.first
            and l.position < s.first + s.length
            -- The bounds don't use the table `clock`, so that Postgres can skip the partitions of other days.
            and l.recorded_at >= date_trunc('minute', coalesce(:now::timestamptz, now()))
                - (:minutes::integer - 1) * interval '1 minute'
            and l.recorded_at < coalesce(:now::timestamptz, now()) + interval '1 minute'
            and l.intent in ('TRIGGERED', 'DELIVERED', 'DEAD')
            -- A failed start of a job and a failed service task leave no dead letter.
            and (l.intent <> 'DEAD' or (l.target not like 'job:%' and l.timer_type <> 'SERVICE_TASK'))
            and (:tenant_id::text is null or l.tenant_id = :tenant_id)
            and (:target::text is null or l.target = :target)
            and (:with_jobs::boolean or l.target not like 'job:%')
        offset 0 -- reads section by section; without it, a join might read the whole log
    ) r
)
select
    s.began_at,
    round(coalesce(sum(s.weight) filter (where s.intent = 'TRIGGERED'), 0))::bigint as fired,
    round(coalesce(sum(s.weight) filter (where s.late_s > extract(epoch from :late::interval)), 0))::bigint as late,
    max(s.late_s) as latest_s,
    round(coalesce(sum(s.weight) filter (where s.intent = 'DELIVERED'), 0))::bigint as delivered,
    round(coalesce(sum(s.weight) filter (where s.intent = 'DEAD'), 0))::bigint as died,
    bool_or(s.estimated) as estimated
from seen s
group by s.began_at
order by s.began_at
