-- Reads where the readable part of the command log ends now.
--
-- in:    nothing
-- out:   position bigint: every record that becomes readable later has a higher position
-- locks: nothing
-- index: none
select shardclock.log_horizon() as position
