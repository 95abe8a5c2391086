-- Looks through the command log after a position, as read_log does, for records that ended their timers.
--
-- in:    :after bigint: the position of the last record that was read, :page_size integer, :ends text[]: the intents
--        that end any timer, :undelivered text[]: the targets of those that have ended when they fire
-- out:   timer_key bigint, position bigint, recorded_at timestamptz, is_end boolean; in the order of position
-- locks: nothing
-- index: command_log_in_order of each partition
select
    l.timer_key, l.position, l.recorded_at,
    (l.intent = any (:ends::text[]) or l.intent = 'TRIGGERED' and l.target = any (:undelivered::text[]))
    -- Of a schedule that catches up, SKIPPED tells of occurrences beside the one that has fired.
    and (l.intent <> 'SKIPPED' or l.detail ->> 'policy' is not distinct from 'skip') as is_end
from shardclock.read_log(:after, :page_size, 0, 1, null) l
