-- Reads which timers exist or have existed.
--
-- in:    $1 timer_keys bigint[]
-- out:   timer_key bigint, due_date timestamptz
-- locks: nothing
-- index: timers_pkey, command_log_by_timer_key
select t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date
from shardclock.timers t
where t.timer_key = any ($1)
union
select l.timer_key, l.due_date
from shardclock.command_log l
where l.timer_key = any ($1)
    and (l.intent in ('TRIGGERED', 'CANCELED') or (l.intent = 'SKIPPED' and l.detail ->> 'policy' = 'skip'))
