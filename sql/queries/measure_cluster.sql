-- Measures the cluster in one row: who serves, what was counted, what holds Postgres up.
--
-- in:    $1 lately interval or null: look only for what fell due later than this long ago, but for some slots:
--        $2 first_slot integer or null and those that follow it, $3 slots integer or null of them
-- out:   shards_wanted integer, shards_min integer or null, shards_max integer or null, target_per_s integer,
--        ramp_per_s integer or null (no limit), leader_alive boolean, shards_alive bigint, holders_on_hold bigint,
--        slots_assigned bigint, paused bigint, oldest_overdue_s double precision, scheduled bigint, log_records bigint, canceled bigint,
--        rescheduled bigint, pauses bigint, resumed bigint, oldest_transaction_s double precision,
--        oldest_snapshot_s double precision, wal_bytes bigint, log_partitions_ahead bigint, schema_version integer
-- locks: nothing
-- index: timers_by_slot, two probes a slot
with alive as materialized (
    select h.shard, h.shard_count
    from shardclock.holders h
    where h.ended_at is null and h.shard is not null and h.seen_at > now() - interval '5 s'
),
oldest as materialized (
    select min(t.due_date) as due_date
    from generate_series(0, 839) as s (slot)
    cross join lateral (
        select t.due_date from shardclock.timers t
        where t.slot = s.slot
            and t.due_date <= now()
            -- docs/decisions/0023-fired-rows-that-stay.md
            and t.due_date > coalesce(
                case when (s.slot - $2::integer + 840) % 840 >= $3::integer then now() - $1::interval end, '-infinity'
            )
        order by t.due_date
        limit 1
    ) t
),
paused as materialized (
    select count(*) as n
    from generate_series(0, 839) as s (slot)
    cross join lateral (
        select from shardclock.timers t
        where t.slot = s.slot
            and t.due_date = '9999-12-31 23:59:59.999998+00'
            and t.paused_due_date is not null
        offset 0 -- slot by slot: a join would read the whole table
    ) t
),
day as materialized (
    select 'command_log_' || to_char((now() at time zone 'UTC')::date + n, 'YYYYMMDD') as partition_name, n
    from generate_series(0, 7) as n
),
missing as materialized (
    select min(d.n) as n
    from day d
    where not exists (
        select from pg_inherits i
        join pg_class c on c.oid = i.inhrelid
        where i.inhparent = 'shardclock.command_log'::regclass and c.relname = d.partition_name
    )
),
open as materialized (
    select
        max(extract(epoch from now() - a.xact_start)) filter (where a.backend_xid is not null) as transaction_s,
        max(extract(epoch from now() - a.xact_start)) filter (where a.backend_xmin is not null) as snapshot_s
    from pg_stat_activity a
    where a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
)
-- A transaction may have begun after ours did: its age is not negative.
select
    c.shards_wanted,
    c.shards_min,
    c.shards_max,
    c.target_per_s,
    c.ramp_per_s,
    coalesce(c.lease_until > now(), false) as leader_alive,
    (select count(*) from alive) as shards_alive,
    (
        select count(*) from shardclock.holders h
        where h.ended_at is null and h.seen_at > now() - interval '5 s' and shardclock.held_why(h.identity) is not null
    ) as holders_on_hold,
    (
        select count(*) from generate_series(0, 839) as s (slot)
        where exists (select from alive where s.slot % alive.shard_count = alive.shard)
    ) as slots_assigned,
    paused.n as paused,
    coalesce(extract(epoch from now() - oldest.due_date), 0)::double precision as oldest_overdue_s,
    (select case when q.is_called then q.last_value else 0 end from shardclock.timer_key_seq q) as scheduled,
    (select case when q.is_called then q.last_value else 0 end from shardclock.position_seq q) as log_records,
    (select case when q.is_called then q.last_value else 0 end from shardclock.canceled_seq q) as canceled,
    (select case when q.is_called then q.last_value else 0 end from shardclock.rescheduled_seq q) as rescheduled,
    (select case when q.is_called then q.last_value else 0 end from shardclock.paused_seq q) as pauses,
    (select case when q.is_called then q.last_value else 0 end from shardclock.resumed_seq q) as resumed,
    greatest(open.transaction_s, 0)::double precision as oldest_transaction_s,
    greatest(open.snapshot_s, 0)::double precision as oldest_snapshot_s,
    (pg_current_wal_lsn() - '0/0')::bigint as wal_bytes,
    coalesce(missing.n, 8)::bigint as log_partitions_ahead,
    (select max(m.version) from shardclock.migrations m) as schema_version
from shardclock.coordination c, paused, oldest, missing, open
