-- Finds where the record stands that ended each of some timers; those that have not ended are left out.
--
-- in:    :timer_keys bigint[], :ends text[]: the intents that end any timer, :undelivered text[]: the targets of those
--        that have ended when they fire
-- out:   timer_key bigint, position bigint, recorded_at timestamptz: of the newest such record of each timer
-- locks: nothing
-- index: command_log_by_timer_key
select k.timer_key, l.position, l.recorded_at
from unnest(:timer_keys::bigint[]) k (timer_key)
cross join lateral (
    select l.position, l.recorded_at
    from shardclock.command_log l
    where l.timer_key = k.timer_key
        and (l.intent = any (:ends::text[]) or l.intent = 'TRIGGERED' and l.target = any (:undelivered::text[]))
        -- Of a schedule that catches up, SKIPPED tells of occurrences beside the one that has fired.
        and (l.intent <> 'SKIPPED' or l.detail ->> 'policy' = 'skip')
    order by l.recorded_at desc
    limit 1
) l
