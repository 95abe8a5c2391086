-- Reads the log's records after a position, in order, up to the horizon.
--
-- in:    after bigint, page_size integer, partition integer, partitions integer, horizon bigint
-- out:   setof shardclock.command_log: in the order of position
-- locks: nothing
-- index: command_log_in_order of each partition
create or replace function shardclock.read_log(
    after bigint default 0,
    page_size integer default 500,
    partition integer default 0,
    partitions integer default 1,
    horizon bigint default null
)
returns setof shardclock.command_log
language plpgsql
set search_path = pg_catalog, pg_temp
-- Always use the index, even if the planner believes that a new partition is empty.
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    settled bigint := read_log.horizon;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'the log can''t be read in a % transaction, because its snapshot is older than the check of the '
            'writers: use read committed', current_setting('transaction_isolation')
            using errcode = 'object_not_in_prerequisite_state', constraint = 'log_isolation';
    end if;
    if read_log.page_size < 0 then
        raise exception 'page_size % is refused: use 0 or more', read_log.page_size
            using errcode = 'invalid_parameter_value', constraint = 'invalid_page_size';
    end if;
    if (read_log.partitions between 1 and 840 and read_log.partition between 0 and read_log.partitions - 1) is not true then
        raise exception 'partition % of % is refused: use 1 to 840 partitions, and number them from 0', read_log.partition,
            read_log.partitions
            using errcode = 'invalid_parameter_value', constraint = 'invalid_partition';
    end if;
    if settled is null then
        settled := shardclock.log_horizon();
    end if;
    -- This is a separate statement, so that its snapshot is newer than the horizon.
    return query
    select l.*
    from shardclock.command_log l
    where l.position > read_log.after
        and l.position <= settled
        and (read_log.partitions = 1 or l.timer_key % 840 % read_log.partitions = read_log.partition)
    order by l.position
    limit read_log.page_size;
end
$$;

comment on function shardclock.read_log is $$Reads the records after a position, in order. A reader gets each record once, including records that were committed late. Readers wait at the first record of an open transaction that has written to the log; the view shardclock.log_writers shows these transactions.

after: the position of the last record that the caller has read; 0: read from the beginning
page_size: the limit of records
partition: with partitions: the number of the partition to read, which has the timers with timer_key % 840 % partitions = partition
partitions: the number of partitions into which readers divide the log, 1 to 840
horizon: the last position to read, a result of log_horizon in an earlier statement; null: read_log calls log_horizon
returns: rows of command_log, in the order of position; no row: there are no more records, call again later
errors: 22023 for a negative page_size, and for a partition that does not exist; 55000 in a transaction that is not read committed, and on a replica; 42501 without a right on the sequence shardclock.position_seq
example: select position, intent, timer_key from shardclock.read_log(after => 0, page_size => 100);
$$;
