-- Fires the timers that are overdue, and leases those that fall due within the horizon, in one scan.
--
-- in:    :holder bigint, :horizon interval, :lease interval, :batch integer,
--        :scope text: 'own' and 'ahead' scan the holder's slots; 'sweep' scans every slot,
--        :floor interval or null: skip timers overdue by more than this,
--        :fire_overdue boolean: fire overdue plain timers here instead of leasing them,
--        :ramp_after interval: timers that are overdue by more were left by an outage,
--        :lag_edges interval[], ascending, or null: don't measure the lags, :now timestamptz or null,
--        :recent interval or null: scan only for timers due after now - recent; null scans every slot from its oldest
--        row. While a dead holder's claims are free, the scan goes back two leases at least.
--        :full_from integer or null and :full_count integer or null: :full_count slots, from slot :full_from on, are
--        scanned from their oldest row, independent of :recent,
--        :slot integer or null: scan this slot of the holder's alone; null scans each
-- out:   at least one row: server_time timestamptz, fired bigint, deliveries bigint (how many of these have a target to
--        call), lags text or null (of the timers fired here, as JSON), saturated boolean (there may be more),
--        left_by_outage bigint (how many of the taken timers an outage left), ramp_per_s integer or null (this shard's
--        part of the ramp), then one leased timer, soonest first, or nulls: timer_key bigint, due_date timestamptz,
--        schedule text, zone text, missed text, anchor timestamptz, anchor_occurrence bigint, occurrence bigint,
--        repetitions integer, starts_job boolean, tenant_id text or null, version xid
-- locks: the taken rows, for the statement; leaves out rows that others have locked, and gives up after 0.1 s (55P03)
--        if a row was locked between the reading and the locking
-- index: timers_by_slot, each slot from where its scan begins; then timers_pkey, one probe for each row; holders_pkey,
--        holders_ended, holders_suspended
with
-- include: claiming_shard.sql
scan as materialized (
    select
        :batch::integer as timers,
        coalesce(:now::timestamptz, now()) - :floor::interval as since,
        :scope::text = 'sweep' as is_sweep,
        coalesce(:slot::integer, case when :scope = 'sweep' then 0 else me.part end) as first_slot,
        coalesce(:slot, 839) as last_slot,
        case when :scope = 'sweep' then 1 else me.part_count end as step
    from me
),
-- include: rows_of_slots.sql
due as materialized (
    -- include: due_of_slots.sql
),
-- include: take_due.sql
select
    -- include: claimed.sql
from (values (true)) as always (one)
left join claimed c on true
order by c.due_date
