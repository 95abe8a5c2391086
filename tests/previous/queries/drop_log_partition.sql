-- Drops the oldest day of the command log if it is older than what is kept and every consumer has read it.
--
-- in:    $1 keep_days integer
-- out:   one row: day date, dropped boolean, kept_for text (the group that has yet to read it); none if the oldest day
--        is still kept
-- locks: the log, for a moment, against everybody; gives up after 0.2 s of waiting
-- index: command_log_in_order of that day
select d.day, d.dropped, d.kept_for from shardclock.drop_log_partition($1) d
