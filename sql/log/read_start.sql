-- Reads when the server was started.
--
-- in:    nothing
-- out:   started_at timestamptz
-- locks: nothing
-- index: none
select pg_postmaster_start_time() as started_at
