-- Reads the clients' paused schedules with a past due date, among the given timers.
--
-- in:    :timer_keys bigint[]
-- out:   due_date timestamptz, schedule text, zone text
--        kept_due_date timestamptz: for a schedule that a client runs now: when the occurrence after this run is due
--        anchor timestamptz, anchor_occurrence bigint, occurrence bigint, repetitions integer, missed text, late_since
--          timestamptz
-- locks: nothing
-- index: timers_pkey, one probe for each key
select
    t.paused_due_date as due_date, t.schedule, coalesce(t.zone, 'UTC') as zone, t.kept_due_date, t.anchor,
    t.anchor_occurrence, t.occurrence, t.repetitions, coalesce(t.missed, 'fire_once') as missed,
    t.paused_due_date as late_since
from shardclock.timers t
where t.timer_key = any (:timer_keys)
    and (t.paused_due_date < now() and t.schedule is not null and not shardclock.is_of_system(t.target)) is true
