-- Deletes a consumer group, and the records that were set aside for the group.
--
-- in:    :group_name text
-- out:   partitions integer (the group's former number of partitions); no row if the group does not exist
-- locks: the group's rows
-- index: consumers_pkey, records_aside_pkey
with aside as (
    delete from shardclock.records_aside where group_name = :group_name
),
dropped as (
    delete from shardclock.consumers where group_name = :group_name returning partition
)
select count(*)::integer as partitions from dropped having count(*) > 0
