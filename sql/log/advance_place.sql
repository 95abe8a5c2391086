-- Moves a partition's place behind the records that are done, only in the transaction that did the work.
--
-- in:    :group_name text, :partition integer, :position bigint, :worked boolean (false: there were no records),
--        :transaction bigint (the transaction that locked the partition before the work)
-- out:   position bigint; or no row: that transaction has ended, so other members may have the partition
-- locks: the partition's row
-- index: consumers_pkey
update shardclock.consumers
set position = :position,
    worked_at = case when :worked then clock_timestamp() else worked_at end,
    attempts = 0,
    not_before = null,
    leased_until = null
where group_name = :group_name and partition = :partition::integer and txid_current() = :transaction
returning position
