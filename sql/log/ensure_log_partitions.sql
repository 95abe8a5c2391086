-- Creates the command log's partitions for today, the week ahead, and past days without a partition.
--
-- in:    nothing
-- out:   made integer
-- locks: an advisory lock; to attach a partition, also the default partition for a moment: fails (55P03) immediately if
--        another transaction has locked the default partition
-- index: none
select shardclock.ensure_log_partitions() + shardclock.rehome_log_default() as made
