-- Reads the cluster's state in one row. The state lacks the number of overdue timers, which count_due counts.
--
-- in:    :recent interval or null: search for the oldest overdue timer among the timers that became due within this
--          interval; null: among all timers
-- out:   pending bigint: including paused timers
--        pending_estimated boolean, paused bigint, oldest_overdue_s double precision
--        ramp_per_s integer or null (no limit)
--        fired bigint: the number of firings among the log's last 10,000 records, at most 1,000
--        lag_p50_ms double precision, lag_p99_ms double precision and lag_max_ms double precision: the lags of these
--          firings; nulls if there is none
--        last_fired_s double precision or null: seconds since the last of these firings
--        fired_lately bigint and lag_p99_lately_ms double precision or null: for those of these firings that happened
--          in the last minute
--        shards_wanted integer, workers_wanted integer
--        deliveries bigint and dead_letters bigint: counted up to 100,000
--        term bigint, leader bigint, leader_alive boolean, server_time timestamptz
-- locks: nothing
-- index: timers_by_slot, one probe for each slot, and all paused timers; command_log_in_order, backwards
with size as materialized (
    select greatest(c.reltuples, 0)::bigint as estimate
    from pg_class c
    where c.oid = 'shardclock.timers'::regclass
),
oldest as materialized (
    select min(shardclock.late_since(t.due_date, t.created_at, t.changed_at, t.occurrence)) as late_since
    from generate_series(0, 839) as s (slot)
    cross join lateral (
        select t.due_date, t.created_at, t.changed_at, t.occurrence
        from shardclock.timers t
        where t.slot = s.slot
            and t.due_date <= now()
            -- docs/decisions/0023-fired-rows-that-stay.md
            and t.due_date > coalesce(now() - :recent::interval, '-infinity')
        order by t.due_date
        limit 1
    ) t
),
paused as materialized (
    select count(*) as n
    from generate_series(0, 839) as s (slot)
    join lateral (
        select from shardclock.timers t
        where t.slot = s.slot
            and t.due_date = '9999-12-31 23:59:59.999998+00'
            and t.paused_due_date is not null
        offset 0 -- reads slot by slot; without it, a join might read the whole table
    ) t on true
),
recent as materialized (
    select
        greatest(
            extract(
                epoch from l.recorded_at - shardclock.late_since(
                    l.due_date, l.created_at, (l.detail ->> 'changed_at')::timestamptz, l.occurrence
                )
            ),
            0
        )::double precision * 1000 as lag_ms,
        l.recorded_at
    from (
        select l.position, l.recorded_at, l.due_date, l.intent, l.created_at, l.detail, l.occurrence
        from shardclock.command_log l
        order by l.position desc
        -- Read many records, because thousands of records of deliveries and cancellations may follow the last firing.
        limit 10000
    ) l
    where l.intent = 'TRIGGERED'
    order by l.position desc
    limit 1000
),
lately as materialized (
    select count(*) as fired, percentile_cont(0.99) within group (order by r.lag_ms) as lag_p99_ms
    from recent r
    where r.recorded_at > now() - interval '1 minute'
)
select
    -- A count of a million rows takes 0.1 s; for larger tables, use the estimate of the last vacuum.
    case when size.estimate < 1000000 then (select count(*) from shardclock.timers) else size.estimate end as pending,
    size.estimate >= 1000000 as pending_estimated,
    paused.n as paused,
    greatest(extract(epoch from now() - oldest.late_since), 0)::double precision as oldest_overdue_s,
    c.ramp_per_s,
    (select count(*) from recent) as fired,
    (select percentile_cont(0.5) within group (order by r.lag_ms) from recent r) as lag_p50_ms,
    (select percentile_cont(0.99) within group (order by r.lag_ms) from recent r) as lag_p99_ms,
    (select max(r.lag_ms) from recent r) as lag_max_ms,
    (select extract(epoch from now() - max(r.recorded_at))::double precision from recent r) as last_fired_s,
    lately.fired as fired_lately,
    lately.lag_p99_ms as lag_p99_lately_ms,
    (select s.wanted from shardclock.scale s where s.role = 'shard') as shards_wanted,
    (
        select case when shardclock.has_targets() then s.wanted else 0 end from shardclock.scale s where s.role = 'worker'
    ) as workers_wanted,
    -- The limits keep both counts fast.
    (select count(*) from (select from shardclock.deliveries limit 100000) d) as deliveries,
    (select count(*) from (select from shardclock.dead_letters limit 100000) d) as dead_letters,
    l.term,
    l.leader,
    coalesce(l.lease_until > now(), false) as leader_alive,
    clock_timestamp() as server_time
from size, paused, oldest, lately, shardclock.coordination c, (
    select l.term, l.leader, l.lease_until from shardclock.leadership l order by l.renewed_at desc limit 1
) l
