-- Reads Postgres's clock, the only clock that decides when a timer is due.
--
-- in:    nothing
-- out:   one row: server_time timestamptz
-- locks: nothing
-- index: none
select clock_timestamp() as server_time
