-- Reads which timers a holder still leases, to tell "not fired yet" from "no longer mine".
--
-- in:    $1 holder bigint, $2 timer_keys bigint[]
-- out:   timer_key bigint, due_date timestamptz, schedule text, anchor timestamptz, occurrence bigint
-- locks: nothing
-- index: timers_pkey, a probe a key
select t.timer_key, t.due_date, t.schedule, t.anchor, t.occurrence
from shardclock.timers t
where t.timer_key = any ($2) and t.claimed_by = $1
