-- Reads the time of the first record at a position or after it.
--
-- in:    :position bigint
-- out:   recorded_at timestamptz; no row: the log has no record at or after the position
-- locks: nothing
-- index: command_log_in_order, one record of each day
select l.recorded_at
from shardclock.command_log l
where l.position >= :position
order by l.position
limit 1
