-- Reads the first and the last position of the log.
--
-- in:    nothing
-- out:   one row: first bigint and last bigint; nulls: the log is empty
-- locks: nothing
-- index: command_log_in_order, both ends of each day
select e.first, e.last
from shardclock.log_ends e
