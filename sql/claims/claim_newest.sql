-- Claims the overdue timers with the latest due dates, so that a backlog of older timers does not delay these timers.
--
-- in:    :holder bigint, :horizon interval, :lease interval, :batch integer,
--        :floor interval or null: skip timers that are overdue by more than this,
--        :fire_overdue boolean: the statement fires overdue plain timers and overdue schedules with a known period;
--        false: it leases them,
--        :ramp_after interval: a timer that is overdue by more than this counts as left by an outage,
--        :granted_by bigint[], :granted_targets text[] and :granted_places integer[]: one element of each array is a
--        grant: a worker, a target, and the number of the target's deliveries that the worker accepts; a worker may
--        have several grants, :granted_lease interval,
--        :lag_edges interval[], ascending, or null: don't measure the lags, :now timestamptz or null
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
-- locks: the fired and leased rows, until the statement ends; leaves out rows that other transactions have locked
-- index: timers_by_slot, each slot backwards from the horizon; then timers_pkey, one probe for each row; holders_pkey,
--        holders_ended, holders_suspended
with
-- include: included/claiming_shard.sql
due as materialized (
    select d.timer_key, d.due_date, s.slot as place, s.share
    from me
    cross join lateral (
        select
            s.slot,
            greatest(1, :batch::integer * me.part_count / 840) as share,
            greatest(coalesce(:now::timestamptz, now()) - :floor::interval, '-infinity') as since
        from generate_series(me.part, 839, me.part_count) as s (slot)
        -- The order of the slots is random, so that a batch that is smaller than the number of slots does not always
        -- take the same slots.
        order by case when :batch < 840 then random() end
    ) s
    cross join lateral (
        -- A lock before the delete costs little, because the rows are few:
        -- docs/decisions/0021-no-lock-before-a-delete.md.
        select t.timer_key, t.due_date
        from shardclock.timers t
        -- include: included/free_and_due.sql
        order by t.due_date desc
        limit s.share
        for update of t skip locked
    ) d
    limit :batch
),
following as materialized (
    select ''::text as tenant_id
),
-- include: included/fire_or_lease_due.sql
-- include: included/claim_result.sql
