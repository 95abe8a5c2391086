-- Claims due timers for a shard: fires overdue timers, and leases the timers that are due soon, in one scan.
--
-- A shard sends this statement at every poll, and fires the leased timers later. The glossary in docs/architecture.md
-- explains ramp, hold and grant.
--
-- in:    :holder bigint: the shard
--        :horizon interval: lease the timers that become due within this time
--        :lease interval: the duration of a lease
--        :batch integer: the limit of timers
--        :scope text: 'own' and 'ahead' scan the shard's slots; 'sweep' scans all slots
--        :floor interval or null: skip timers that are overdue by more than this
--        :fire_overdue boolean: true: fire overdue plain timers, and overdue schedules with a known period; false:
--          lease them
--        :ramp_after interval: an outage has left each timer that is overdue by more than this
--        :granted_by bigint[], :granted_targets text[] and :granted_places integer[]: the grants: a worker, a target,
--          and the number of deliveries that the worker accepts; a worker may have several grants
--        :granted_lease interval: the lease of a delivery that a worker gets in this way
--        :lag_edges interval[] or null: ascending bounds of the lags' histogram; null: don't measure the lags
--        :now timestamptz or null (Postgres's clock)
--        :recent interval or null: scan only timers that became due within this time; null: scan each slot from its
--          oldest row. While an ended holder's claims are free, the scan goes back by at least two leases
--        :full_from integer or null and :full_count integer or null: even with :recent, scan :full_count slots from
--          their oldest row; the first of these slots is :full_from
--        :slot integer or null: scan only this slot; null: scan all slots of the shard
-- out:   a row for each leased timer, soonest first, with nulls in the columns before timer_key; then one row about the
--          scan, with nulls in the other columns:
--        server_time timestamptz
--        fired bigint: the number of fired timers
--        deliveries bigint: the number of fired timers with a target to call
--        lags text or null: the lags of the fired timers, as JSON
--        handed record[] or null: the deliveries that were claimed for workers: the columns of a claim, then the worker
--        saturated boolean: more timers may be due
--        skipped bigint: the number of occurrences that the fired schedules have skipped
--        left_by_outage bigint: the number of fired or leased timers that an outage has left
--        ramp_per_s double precision or null: this shard's part of the ramp; null: no limit; 0 during a hold
--        next_tenant text: always ''
--        timer_key bigint, due_date timestamptz, schedule text, zone text, missed text
--        missed_before timestamptz or null: the moment of the resume that chose `missed`
--        anchor timestamptz, anchor_occurrence bigint, occurrence bigint, repetitions integer, starts_job boolean,
--          tenant_id text or null, version xid
-- locks: the fired and leased rows, until the statement ends; skips rows that other transactions have locked. If a row
--        is locked between the read and the lock, gives up after 0.1 s (55P03)
-- index: timers_by_slot, each slot from the start of its scan; then timers_pkey, one probe for each row; holders_pkey,
--        holders_ended, holders_suspended
with
-- include: included/claiming_shard.sql
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
-- include: included/rows_of_slots.sql
due as materialized (
    -- include: included/due_of_slots.sql
),
following as materialized (
    select ''::text as tenant_id
),
-- include: included/fire_or_lease_due.sql
-- include: included/claim_result.sql
