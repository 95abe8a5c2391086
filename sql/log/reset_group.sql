-- Moves a consumer group to another place in the log, or gives it another number of partitions.
--
-- in:    :group_name text, :place bigint or null (null: it keeps its place), :partitions integer or null (null: it
--        keeps their number)
-- out:   position bigint; null: there is no such group
-- locks: the group's rows: waits for members that are working in a transaction; a member with a lease loses it
-- index: consumers_pkey
select shardclock.reset_group(:group_name, :place, :partitions) as position
