-- Claims the overdue timers with the latest due dates, so that a backlog of older timers does not delay them.
--
-- claim_due.sql explains the parameters.
--
-- in:    :holder bigint, :horizon interval, :lease interval, :batch integer
--        :floor interval or null: skip timers that are overdue by more than this
--        :fire_overdue boolean, :ramp_after interval
--        :granted_by bigint[], :granted_targets text[], :granted_places integer[], :granted_lease interval
--        :lag_edges interval[] or null, :now timestamptz or null
-- out:   the columns of claim_due
-- locks: the fired and leased rows, until the statement ends; skips rows that other transactions have locked
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
        -- The order of the slots is random: otherwise a batch that is smaller than the number of slots would always
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
