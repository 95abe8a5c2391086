-- Finds the timer with the earliest ended pause.
--
-- in:    :without bigint[]
-- out:   timer_key bigint; no row if no pause has ended
-- locks: nothing
-- index: timers_by_resume
select t.timer_key
from shardclock.timers t
where t.resume_at <= now() and t.timer_key <> all (:without::bigint[])
order by t.resume_at
limit 1
