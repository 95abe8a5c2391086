-- Reads between which positions the log has records now.
--
-- in:    nothing
-- out:   one row: first bigint and last bigint; nulls: it has none
-- locks: nothing
-- index: command_log_in_order, both ends of each day
select e.first, e.last
from shardclock.log_ends e
