-- Finds the positions of the records that ended the given timers; a timer that has not ended has no row.
--
-- in:    :timer_keys bigint[]
--        :ends text[]: the intents that end any timer
--        :undelivered text[]: the targets of timers that end when they fire
-- out:   timer_key bigint, position bigint
--        recorded_at timestamptz: when the newest record that ended the timer was written
-- locks: nothing
-- index: command_log_by_timer_key
select k.timer_key, l.position, l.recorded_at
from unnest(:timer_keys::bigint[]) k (timer_key)
cross join lateral (
    select l.position, l.recorded_at
    from shardclock.command_log l
    where l.timer_key = k.timer_key
        and (l.intent = any (:ends::text[]) or l.intent = 'TRIGGERED' and l.target = any (:undelivered::text[]))
        -- Not every SKIPPED record ends a timer: if a schedule catches up, a SKIPPED record counts the occurrences that
        -- don't fire.
        and (l.intent <> 'SKIPPED' or l.detail ->> 'policy' = 'skip')
    order by l.recorded_at desc
    limit 1
) l
