-- Registers a consumer group at the beginning of the log, if it is new.
--
-- in:    :group_name text, :partitions integer or null: how many partitions a new group gets; null: one
-- out:   partitions integer (how many the group has)
-- locks: the new rows
-- index: consumers_pkey
select shardclock.open_group(:group_name, :partitions) as partitions
