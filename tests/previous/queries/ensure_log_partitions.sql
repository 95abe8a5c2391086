-- Makes the command log's partitions for today and the week ahead, and for past days that went without.
--
-- in:    nothing
-- out:   made integer
-- locks: an advisory lock; to attach one, briefly, against other changes of the log's schema (never against writes)
-- index: none
select shardclock.ensure_log_partitions() + shardclock.rehome_log_default() as made
