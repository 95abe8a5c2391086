-- Ends a session of the console.
--
-- in:    :digest bytea
-- out:   digest bytea, one row; no row if the session does not exist
-- locks: the deleted row
-- index: console_sessions_pkey
delete from shardclock.console_sessions s
where s.digest = :digest
returning s.digest
