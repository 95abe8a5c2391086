-- Reads the timers that a holder has leased in its slots, after the result of a claim was lost.
--
-- in:    :holder bigint, :horizon interval
--        :lease interval: timers that have been due for longer than this are left out
-- out:   timer_key bigint, due_date timestamptz, schedule text, zone text, missed text
--        missed_before timestamptz or null: the moment of the resume that chose `missed`
--        anchor timestamptz, anchor_occurrence bigint, occurrence bigint, repetitions integer, starts_job boolean,
--          tenant_id text or null, version xid
-- locks: nothing
-- index: timers_by_slot, each slot of the holder, from one lease ago up to the horizon
select
    t.timer_key, t.due_date, t.schedule, t.zone, t.missed, t.missed_before, t.anchor, t.anchor_occurrence, t.occurrence,
    t.repetitions, t.starts_job, t.tenant_id, t.version
from shardclock.holders h
cross join lateral generate_series(h.part, 839, h.part_count) as s (slot)
cross join lateral (
    select
        -- include: included/leased_timer.sql
    from shardclock.timers t
    where t.slot = s.slot
        and t.due_date > now() - :lease::interval
        and t.due_date <= now() + :horizon::interval
        and t.claimed_by = :holder
    order by t.due_date
) t
where h.holder = :holder and h.ended_at is null
