-- Finds the records that ended timers, after a position of the command log; returns records in the same order as
-- read_log.
--
-- in:    :after bigint: the last position that was read
--        :page_size integer
--        :ends text[]: the intents that end any timer
--        :undelivered text[]: the targets of timers that end when they fire
-- out:   timer_key bigint, position bigint, recorded_at timestamptz, is_end boolean
--        in the order of position
-- locks: nothing
-- index: command_log_in_order of each partition
select
    l.timer_key, l.position, l.recorded_at,
    (l.intent = any (:ends::text[]) or l.intent = 'TRIGGERED' and l.target = any (:undelivered::text[]))
    -- Not every SKIPPED record ends a timer: if a schedule catches up, a SKIPPED record counts the occurrences that
    -- don't fire.
    and (l.intent <> 'SKIPPED' or l.detail ->> 'policy' is not distinct from 'skip') as is_end
from shardclock.read_log(:after, :page_size, 0, 1, null) l
