-- Gives schedules that a client wrote as mere text their first date; then they wait like any other.
--
-- in:    $1 holder bigint, $2 timer_keys bigint[] (each once), then an array for each column: $3 schedules text[] (as
--        they are stored), $4 zones text[], $5 due_dates timestamptz[], $6 anchors timestamptz[],
--        $7 anchor_occurrences bigint[], $8 repetitions integer[]
-- out:   timer_key bigint of those that were planned; the others were cancelled, changed or paused meanwhile
-- locks: the rows
-- index: timers_pkey, a probe a row
update shardclock.timers t
set schedule = s.schedule,
    zone = s.zone,
    due_date = s.due_date,
    anchor = s.anchor,
    anchor_occurrence = s.anchor_occurrence,
    repetitions = s.repetitions,
    claimed_by = null,
    claimed_until = null
from unnest(
    $2::bigint[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::bigint[], $8::integer[]
) as s (timer_key, schedule, zone, due_date, anchor, anchor_occurrence, repetitions)
where t.timer_key = any ($2)
    and t.timer_key = s.timer_key
    and t.claimed_by = $1
    and t.anchor_occurrence is null
returning t.timer_key
