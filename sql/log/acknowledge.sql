-- Moves a leased partition's place behind the records that are done, and keeps the lease or ends it.
--
-- in:    :group_name text, :partition integer, :lease bigint, :position bigint, :worked boolean (false: no record was
--        done, or none yet), :keep_for interval or null (null: the lease ends now)
-- out:   position bigint (the partition's place now); or no row: the lease ran out, and another member has taken it
-- locks: the partition's row
-- index: consumers_pkey
update shardclock.consumers
set attempts = case when :position > position then 0 else attempts end,
    not_before = case when :position > position then null else not_before end,
    position = greatest(position, :position),
    worked_at = case when :worked then clock_timestamp() else worked_at end,
    leased_until = clock_timestamp() + :keep_for::interval,
    leased_for = coalesce(:keep_for::interval, leased_for)
where group_name = :group_name and partition = :partition::integer and lease = :lease
    -- An acknowledgement that ended the lease is answered again as before, if its answer was lost.
    and (leased_until is not null or (:keep_for::interval is null and position >= :position))
returning position
