-- Finds the timer with the earliest ended pause, which end_pauses will resume first.
--
-- in:    :without bigint[]
-- out:   timer_key bigint; no row if no pause has ended, or if all these rows are locked
-- locks: the timer; skips locked rows
-- index: timers_by_resume
select t.timer_key
from shardclock.timers t
where t.resume_at <= now() and t.timer_key <> all (:without::bigint[])
order by t.resume_at
limit 1
for update skip locked
