-- Registers a new consumer group at the start of the log, and returns the group's number of partitions.
--
-- Concurrent calls run one after the other, and only the first of them inserts the group's rows.
--
-- in:    group_name text, partitions integer
-- out:   integer
-- locks: the group's name, until the transaction ends; the new rows
-- index: consumers_pkey
create or replace function shardclock.open_group(group_name text, partitions integer)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    found_partitions integer;
begin
    select c.partitions into found_partitions
    from shardclock.consumers c
    where c.group_name = open_group.group_name and c.partition = 0;
    if found then
        return found_partitions;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('shardclock.consumers ' || group_name, 0));
    insert into shardclock.consumers (group_name, partition, partitions)
    select group_name, p, coalesce(partitions, 1)
    from generate_series(0, coalesce(partitions, 1) - 1) p
    where not exists (select from shardclock.consumers c where c.group_name = open_group.group_name);
    return (
        select c.partitions from shardclock.consumers c where c.group_name = open_group.group_name and c.partition = 0
    );
end
$$;
