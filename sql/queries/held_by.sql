-- Reads what a holder leases of its own slots, for a holder that missed the answer to a claim.
--
-- in:    $1 holder bigint, $2 horizon interval, $3 lease interval: what has been due for longer is left out
-- out:   timer_key bigint, due_date timestamptz, schedule text, zone text, missed text, anchor timestamptz,
--        anchor_occurrence bigint, occurrence bigint, repetitions integer
-- locks: nothing
-- index: timers_by_slot, each of its slots from a lease ago up to the horizon
select
    t.timer_key, t.due_date, t.schedule, t.zone, t.missed, t.anchor, t.anchor_occurrence, t.occurrence, t.repetitions
from shardclock.holders h
cross join lateral generate_series(h.shard, 839, h.shard_count) as s (slot)
cross join lateral (
    select
        t.timer_key, t.due_date, t.schedule, coalesce(t.zone, 'UTC') as zone, coalesce(t.missed, 'fire_once') as missed,
        t.anchor, t.anchor_occurrence, t.occurrence, t.repetitions
    from shardclock.timers t
    where t.slot = s.slot
        and t.due_date > now() - $3::interval
        and t.due_date <= now() + $2::interval
        and t.claimed_by = $1
    order by t.due_date
) t
where h.holder = $1 and h.ended_at is null
