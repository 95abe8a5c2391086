-- Deletes the expired sessions of the console.
--
-- in:    :now timestamptz or null
-- out:   digest bytea, one row for each deleted session
-- locks: the deleted rows
-- index: console_sessions_by_end
delete from shardclock.console_sessions s
where s.expires_at <= coalesce(:now::timestamptz, now())
returning s.digest
