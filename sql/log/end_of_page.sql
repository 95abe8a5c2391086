-- Finds where a page of the log ends, whosever its records are.
--
-- in:    :after bigint: the position of the last record that was looked at, :page_size integer
-- out:   position bigint: that of the last of the next records, or null: there is none
-- locks: nothing
-- index: command_log_in_order of each partition
select shardclock.end_of_page(:after, :page_size) as position
