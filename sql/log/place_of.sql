-- Finds the place in the log before the first record that was written at a moment or later.
--
-- in:    :moment timestamptz, :horizon bigint (the result of log_end before: an open transaction may still add records
--        of that moment behind it, at positions below others that are committed)
-- out:   position bigint
-- locks: nothing
-- index: command_log_in_order of each partition
select least(
    (select min(l.position) - 1 from shardclock.command_log l where l.recorded_at >= :moment), :horizon
) as position
