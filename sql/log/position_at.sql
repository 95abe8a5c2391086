-- Finds the position before the first record that was written at or after a moment.
--
-- in:    :moment timestamptz, :horizon bigint (an earlier result of log_end, and the limit of the returned position,
--          because an open transaction may still add records of this moment, at positions below committed records)
-- out:   position bigint
-- locks: nothing
-- index: command_log_in_order of each partition
select least(
    (select min(l.position) - 1 from shardclock.command_log l where l.recorded_at >= :moment), :horizon
) as position
