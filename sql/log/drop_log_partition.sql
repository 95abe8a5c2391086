-- Drops the oldest day of the command log if enough days have passed since then and every consumer group has read it.
--
-- in:    :keep_days integer
-- out:   one row: day date, dropped boolean, kept_for text (the group that has not read it yet); no row if every day is
--        still to be kept
-- locks: the whole log, exclusively, for a moment; gives up (55P03) at once while another transaction holds a lock on
--        that day, and after 0.1 s of waiting for the log's lock
-- index: command_log_in_order of that day; log_days_pkey
select d.day, d.dropped, d.kept_for from shardclock.drop_log_partition(:keep_days) d
