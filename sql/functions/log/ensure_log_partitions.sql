-- Makes the log's partitions for today and the days ahead; returns their number.
--
-- in:    days_ahead integer
-- out:   integer
-- locks: an advisory lock; to attach a partition, the default partition, for a moment: gives up (55P03) at once while
--        another transaction holds a lock on that one
-- index: none
create or replace function shardclock.ensure_log_partitions(days_ahead integer default 7)
returns integer
language plpgsql
-- It runs as its owner: the role of shards may make and drop days by these functions, and no other tables.
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    made integer := 0;
    day date;
    partition_name text;
begin
    -- Two coordinators may come at once; the second finds the work done.
    perform pg_advisory_xact_lock(hashtext('shardclock.ensure_log_partitions'));
    for ahead in 0 .. days_ahead loop
        day := (now() at time zone 'UTC')::date + ahead;
        partition_name := 'command_log_' || to_char(day, 'YYYYMMDD');
        continue when to_regclass('shardclock.' || partition_name) is not null;
        begin
            -- This waits for no lock. Attaching a day needs an exclusive lock on the default partition. A dump may keep
            -- that partition locked for hours, and later writers would wait behind us: so try now, or later again.
            lock table only shardclock.command_log in share update exclusive mode nowait;
            lock table shardclock.command_log_default in access exclusive mode nowait;
            -- Created first and then attached: `create table … partition of` would block every firing while it waits.
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
            -- The default partition already has rows of that day: they are safe there.
            raise warning 'command_log keeps % in its default partition', day;
        end;
    end loop;
    return made;
end
$$;
