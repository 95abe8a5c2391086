-- Reads the cluster's state in one row.
--
-- in:    $1 ramp_after interval: what is overdue by more is what an outage left
-- out:   pending bigint (the paused among them), pending_estimated boolean, paused bigint, overdue bigint,
--        oldest_overdue_s double precision, left_by_outage bigint, ramp_per_s integer or null (no limit), fired bigint,
--        lag_p50_ms double precision, lag_p99_ms double precision, lag_max_ms double precision (of the last thousand
--        firings; null if there is none),
--        shards_wanted integer, term bigint, leader bigint, leader_alive boolean, server_time timestamptz
-- locks: nothing
-- index: timers_by_slot for what is overdue; command_log_in_order, backwards
with size as materialized (
    select greatest(c.reltuples, 0)::bigint as estimate
    from pg_class c
    where c.oid = 'shardclock.timers'::regclass
),
overdue as materialized (
    select
        count(*) as n,
        min(t.due_date) as oldest,
        count(*) filter (where t.due_date <= now() - $1::interval) as left_by_outage
    from generate_series(0, 839) as s (slot)
    join lateral (
        select t.due_date from shardclock.timers t where t.slot = s.slot and t.due_date <= now()
    ) t on true
),
paused as materialized (
    select count(*) as n
    from generate_series(0, 839) as s (slot)
    join lateral (
        select from shardclock.timers t
        where t.slot = s.slot
            and t.due_date = '9999-12-31 23:59:59.999998+00'
            and t.paused_due_date is not null
    ) t on true
),
recent as materialized (
    select extract(epoch from l.recorded_at - l.due_date)::double precision * 1000 as lag_ms
    from (
        select l.recorded_at, l.due_date, l.intent, l.created_at
        from shardclock.command_log l
        order by l.xid desc, l.position desc
        limit 1000
    ) l
    where l.intent = 'TRIGGERED'
)
select
    -- Counting a million rows takes 0.1 s; beyond that, what vacuum last found is close enough.
    case when size.estimate < 1000000 then (select count(*) from shardclock.timers) else size.estimate end as pending,
    size.estimate >= 1000000 as pending_estimated,
    paused.n as paused,
    overdue.n as overdue,
    coalesce(extract(epoch from now() - overdue.oldest), 0)::double precision as oldest_overdue_s,
    overdue.left_by_outage,
    c.ramp_per_s,
    (select count(*) from recent) as fired,
    (select percentile_cont(0.5) within group (order by r.lag_ms) from recent r) as lag_p50_ms,
    (select percentile_cont(0.99) within group (order by r.lag_ms) from recent r) as lag_p99_ms,
    (select max(r.lag_ms) from recent r) as lag_max_ms,
    c.shards_wanted,
    c.term,
    c.leader,
    coalesce(c.lease_until > now(), false) as leader_alive,
    clock_timestamp() as server_time
from size, paused, overdue, shardclock.coordination c
