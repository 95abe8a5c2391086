-- Creates the log's partitions for today and the days ahead; returns the number of new partitions.
--
-- in:    days_ahead integer
-- out:   integer
-- locks: an advisory lock; to attach a partition, also the default partition for a moment: fails (55P03) immediately if
--        another transaction has locked the default partition
-- index: none
create or replace function shardclock.ensure_log_partitions(days_ahead integer default 7)
returns integer
language plpgsql
-- The function runs as its owner. So the role of shards can create partitions of the log through this function, but
-- can't create other tables.
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    made integer := 0;
    day date;
    partition_name text;
begin
    -- Two coordinators may call this function concurrently; the second call waits, and then finds all partitions.
    perform pg_advisory_xact_lock(hashtext('shardclock.ensure_log_partitions'));
    for ahead in 0 .. days_ahead loop
        day := (now() at time zone 'UTC')::date + ahead;
        partition_name := 'command_log_' || to_char(day, 'YYYYMMDD');
        continue when to_regclass('shardclock.' || partition_name) is not null;
        begin
            -- Never wait for a table lock; a later call tries again. To attach a day, Postgres locks the default
            -- partition exclusively. A dump may have locked this partition for hours, and all writers would wait behind
            -- this call.
            lock table only shardclock.command_log in share update exclusive mode nowait;
            lock table shardclock.command_log_default in access exclusive mode nowait;
            -- Create the table and attach it in two steps, because `create table … partition of` would block all
            -- firings while it waits for its lock.
            execute format(
                'create table shardclock.%I (like shardclock.command_log including defaults including constraints)',
                partition_name
            );
            execute format(
                'alter table shardclock.command_log attach partition shardclock.%I for values from (%L) to (%L)',
                partition_name,
                (day::timestamp at time zone 'UTC'),
                ((day + 1)::timestamp at time zone 'UTC')
            );
            made := made + 1;
        exception when check_violation then
            -- The default partition already has rows of that day, so it keeps the day.
            raise warning 'command_log keeps % in its default partition', day;
        end;
    end loop;
    return made;
end
$$;
