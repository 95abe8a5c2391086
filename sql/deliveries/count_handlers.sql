-- Counts the handlers that are declared and not withdrawn.
--
-- in:    nothing
-- out:   one row: handlers bigint
-- locks: nothing
-- index: none, the table is small
select count(*) as handlers
from shardclock.handlers h
where h.withdrawn_at is null
