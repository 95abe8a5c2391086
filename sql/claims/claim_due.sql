-- Fires overdue timers and leases the timers that become due within the horizon, in one scan of the index.
--
-- in:    :holder bigint, :horizon interval, :lease interval, :batch integer,
--        :scope text: 'own' and 'ahead' scan the holder's slots; 'sweep' scans every slot,
--        :floor interval or null: skip timers that are overdue by more than this,
--        :fire_overdue boolean: the statement fires overdue plain timers and overdue schedules with a known period;
--        false: it leases them,
--        :ramp_after interval: a timer that is overdue by more than this counts as left by an outage,
--        :granted_by bigint[], :granted_targets text[] and :granted_places integer[]: one element of each array is a
--        grant: a worker, a target, and the number of the target's deliveries that the worker accepts; a worker may
--        have several grants, :granted_lease interval,
--        :lag_edges interval[], ascending, or null: don't measure the lags, :now timestamptz or null,
--        :recent interval or null: scan only for timers due after now - recent; null: scan each slot from its oldest
--        row. While the claims of an ended holder are free, the scan reads at least two lease durations back.
--        :full_from integer or null and :full_count integer or null: scan :full_count slots, from slot :full_from on,
--        from their oldest row, independent of :recent, :slot integer or null: scan only this slot of the holder; null:
--        scan all slots of the holder
-- out:   a row for each leased timer, soonest first, in which only the columns of the timer are not null; then one row
--        with the numbers of the scan, in which the columns of the timer are null: server_time timestamptz, fired
--        bigint, deliveries bigint (the number of fired timers with a target to call), lags text or null (of the timers
--        fired here, as JSON), handed record[] or null (the deliveries that the statement claimed for workers: for
--        each, the columns of a claim, then the worker), saturated boolean (there may be more due timers), skipped
--        bigint (the number of skipped occurrences of the schedules fired here), left_by_outage bigint (the number of
--        taken timers that an outage left), ramp_per_s double precision or
--        null (this shard's part of the ramp; null: no limit; 0 during a hold), next_tenant text (''),
--        timer_key bigint, due_date timestamptz, schedule text, zone text, missed text,
--        missed_before timestamptz or null (the moment of the resume that chose `missed`), anchor timestamptz,
--        anchor_occurrence bigint, occurrence bigint, repetitions integer, starts_job boolean, tenant_id text or null,
--        version xid
-- locks: the fired and leased rows, until the statement ends; leaves out rows that other transactions have locked, and
--        gives up after 0.1 s (55P03) if a row was locked between the read and the lock
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
