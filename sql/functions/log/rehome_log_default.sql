-- Turns the log's default partition into a regular partition, and creates a new default partition.
--
-- The default partition has the records of days without a partition of their own. The function does nothing until the
-- last of these days is over. It moves no records.
--
-- in:    nothing
-- out:   integer: the number of partitions that it made, 0 or 1
-- locks: the whole log, exclusively, for a moment; gives up after 0.1 s, or immediately if another transaction has
--        locked the default partition
-- index: none
create or replace function shardclock.rehome_log_default()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    first_day date;
    last_day date;
    partition_name text;
begin
    select min(l.recorded_at at time zone 'UTC'), max(l.recorded_at at time zone 'UTC') into first_day, last_day
    from shardclock.command_log_default l;
    if last_day is null or last_day >= (now() at time zone 'UTC')::date then
        return 0;
    end if;
    -- Name the partition after its last day, so that retention does not drop the partition too early.
    partition_name := 'command_log_' || to_char(last_day, 'YYYYMMDD');
    perform shardclock.require_partition_unlocked('command_log_default');
    -- Wait only briefly for this lock, because all writers of the log wait behind it.
    set local lock_timeout = '100ms';
    lock table shardclock.command_log in access exclusive mode;
    alter table shardclock.command_log detach partition shardclock.command_log_default;
    execute format('alter table shardclock.command_log_default rename to %I', partition_name);
    execute format(
        'alter table shardclock.command_log attach partition shardclock.%I for values from (%L) to (%L)',
        partition_name, first_day::timestamp at time zone 'UTC', (last_day + 1)::timestamp at time zone 'UTC'
    );
    create table shardclock.command_log_default partition of shardclock.command_log default;
    return 1;
exception when lock_not_available or check_violation or invalid_object_definition or duplicate_table then
    -- Another transaction has locked the log, or a day in between has its own partition: don't change the default
    -- partition.
    return 0;
end
$$;
