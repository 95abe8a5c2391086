-- Measures the cluster in one row: its processes, its counters, and the transactions that delay vacuum.
--
-- in:    :recent interval or null: search only the timers that became due after now - recent; null: search all timers
--        :full_from integer or null and :full_count integer or null: in :full_count slots, from slot :full_from on,
--          search all timers, independent of :recent
-- out:   shards_wanted integer, shards_min integer or null, shards_max integer or null, target_per_s integer
--        ramp_per_s integer or null (no limit)
--        leader_alive boolean, shards_alive bigint, holders_on_hold bigint
--        is_held boolean: an operator has put the database on hold
--        slots_assigned bigint
--        workers_wanted integer: 0 if there are no targets
--        workers_alive bigint, paused bigint
--        oldest_overdue_s double precision: the time since the oldest overdue timer became due, or since a client's
--          later request to schedule, move or resume it
--        oldest_due_s double precision: the time since this timer became due
--        scheduled bigint, log_records bigint, canceled bigint, rescheduled bigint, pauses bigint, resumed bigint,
--          oldest_log_writer_s double precision, oldest_snapshot_s double precision, wal_bytes bigint,
--          log_partitions_ahead bigint, schema_version integer
-- locks: nothing
-- index: timers_by_slot, two probes for each slot
with alive as materialized (
    select h.part, h.part_count
    from shardclock.presence h
    where h.role = 'shard' and h.part is not null and h.alive
),
oldest as materialized (
    select
        min(t.due_date) as due_date,
        min(shardclock.late_since(t.due_date, t.created_at, t.changed_at, t.occurrence)) as late_since
    from generate_series(0, 839) as s (slot)
    cross join lateral (
        select t.due_date, t.created_at, t.changed_at, t.occurrence from shardclock.timers t
        where t.slot = s.slot
            and t.due_date <= now()
            -- docs/decisions/0023-fired-rows-that-stay.md
            and t.due_date > coalesce(
                case
                    when (s.slot - :full_from::integer + 840) % 840 >= :full_count::integer
                    then now() - :recent::interval
                end,
                '-infinity'
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
        offset 0 -- reads slot by slot; without it, a join might read the whole table
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
        (select extract(epoch from now() - min(w.began_at)) from shardclock.log_writers w) as log_writer_s,
        (
            select max(extract(epoch from now() - a.xact_start))
            from pg_stat_activity a
            where a.pid <> pg_backend_pid() and a.backend_type = 'client backend' and a.backend_xmin is not null
        ) as snapshot_s
)
-- Ages have `greatest(…, 0)`, because another transaction may have begun after this transaction, and an age must not be
-- negative.
select
    scale.wanted as shards_wanted,
    scale.wanted_min as shards_min,
    scale.wanted_max as shards_max,
    scale.target_per_s,
    c.ramp_per_s,
    coalesce(l.lease_until > now(), false) as leader_alive,
    (select count(*) from alive) as shards_alive,
    (
        select count(*) from shardclock.presence h
        where h.alive and shardclock.hold_reason(h.identity) is not null
    ) as holders_on_hold,
    (select i.held_why is not null from shardclock.identity i where i.singleton) as is_held,
    (
        select count(*) from generate_series(0, 839) as s (slot)
        where exists (select from alive where s.slot % alive.part_count = alive.part)
    ) as slots_assigned,
    (
        select case when shardclock.has_targets() then s.wanted else 0 end from shardclock.scale s where s.role = 'worker'
    ) as workers_wanted,
    (
        select count(*) from shardclock.presence h
        where h.role = 'worker' and h.part is not null and h.alive
    ) as workers_alive,
    paused.n as paused,
    greatest(extract(epoch from now() - oldest.late_since), 0)::double precision as oldest_overdue_s,
    coalesce(extract(epoch from now() - oldest.due_date), 0)::double precision as oldest_due_s,
    (select case when q.is_called then q.last_value else 0 end from shardclock.timer_key_seq q) as scheduled,
    (select case when q.is_called then q.last_value else 0 end from shardclock.position_seq q) as log_records,
    (select case when q.is_called then q.last_value else 0 end from shardclock.canceled_seq q) as canceled,
    (select case when q.is_called then q.last_value else 0 end from shardclock.rescheduled_seq q) as rescheduled,
    (select case when q.is_called then q.last_value else 0 end from shardclock.paused_seq q) as pauses,
    (select case when q.is_called then q.last_value else 0 end from shardclock.resumed_seq q) as resumed,
    greatest(open.log_writer_s, 0)::double precision as oldest_log_writer_s,
    greatest(open.snapshot_s, 0)::double precision as oldest_snapshot_s,
    (pg_current_wal_lsn() - '0/0')::bigint as wal_bytes,
    coalesce(missing.n, 8)::bigint as log_partitions_ahead,
    (select max(m.version) from shardclock.migrations m) as schema_version
from shardclock.coordination c, paused, oldest, missing, open, (
    select l.term, l.leader, l.lease_until from shardclock.leadership l order by l.renewed_at desc limit 1
) l
cross join shardclock.scale
where scale.role = 'shard'
