-- Reads which timers a holder still leases, to tell "not fired yet" from "no longer mine".
--
-- in:    $1 holder bigint, $2 timer_keys bigint[]
-- out:   timer_key bigint, due_date timestamptz, schedule text, zone text, missed text, anchor timestamptz,
--        anchor_occurrence bigint, occurrence bigint, repetitions integer
-- locks: nothing
-- index: timers_pkey, a probe a key
select
    t.timer_key, t.due_date, t.schedule, coalesce(t.zone, 'UTC') as zone, coalesce(t.missed, 'fire_once') as missed,
    t.anchor, t.anchor_occurrence, t.occurrence, t.repetitions
from shardclock.timers t
where t.timer_key = any ($2) and t.claimed_by = $1
