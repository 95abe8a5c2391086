-- Reads the next due date of a pending or paused timer, its rule, and the anchor of the rule.
--
-- in:    :timer_key bigint or null, :name text or null, :tenant_id text
-- out:   one row or none:
--        due_date timestamptz, schedule text, zone text
--        kept_due_date timestamptz: for a schedule that a client runs now: when the occurrence after this run is due
--        anchor timestamptz, anchor_occurrence bigint, occurrence bigint, repetitions integer, missed text
--        late_since timestamptz: the moment from which the next firing is late
--        missed_before timestamptz or null: the moment of the resume that chose `missed`
-- locks: nothing
-- index: timers_pkey or timers_by_name_prefix
select
    d.due_date, t.schedule, coalesce(t.zone, 'UTC') as zone, t.kept_due_date, t.anchor, t.anchor_occurrence,
    t.occurrence, t.repetitions,
    coalesce(case when t.due_date < t.changed_at then t.missed_once end, t.missed, 'fire_once') as missed,
    shardclock.late_since(d.due_date, t.created_at, t.changed_at, t.occurrence) as late_since,
    case when t.due_date < t.changed_at and t.missed_once is not null then t.changed_at end as missed_before
from shardclock.timers t
cross join lateral (select coalesce(t.paused_due_date, t.due_date)) as d (due_date)
where t.timer_key = :timer_key or (t.name = :name and t.tenant_id = :tenant_id)
limit 1
