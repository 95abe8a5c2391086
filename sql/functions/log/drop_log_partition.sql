-- Drops the partition of the log's oldest day, if the retention time of this day is over.
--
-- A call drops only one day, so that it locks the log only for a moment. Days are dropped in order, and only after all
-- consumer groups have read them, so that no group misses records.
--
-- in:    keep_days integer
-- out:   day date, dropped boolean, kept_for text; no row: all days are still kept
-- locks: the whole log, exclusively, for a moment; fails (55P03) immediately if another transaction has locked that
--        day, and after a wait of 0.1 s for the log's lock
-- index: command_log_in_order of that day; log_days_pkey
create or replace function shardclock.drop_log_partition(keep_days integer)
returns table (day date, dropped boolean, kept_for text)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    partition_name text;
    last_position bigint;
begin
    if keep_days is null or keep_days < 1 then
        raise exception 'keep_days % is refused: keep at least 1 day', keep_days
            using errcode = 'invalid_parameter_value', constraint = 'invalid_keep_days';
    end if;
    perform pg_advisory_xact_lock(hashtext('shardclock.ensure_log_partitions'));
    select min(c.relname) into partition_name
    from pg_inherits i
    join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'shardclock.command_log'::regclass and c.relname ~ '^command_log_[0-9]{8}$';
    day := to_date(right(partition_name, 8), 'YYYYMMDD');
    if day is null or day >= (now() at time zone 'UTC')::date - keep_days then
        return;
    end if;
    -- Count only the later days that a coordinator has recorded in log_days together with the next day. Otherwise a
    -- clock that jumps ahead would make all days old enough.
    if keep_days > (
        select count(*)
        from shardclock.log_days d
        join shardclock.log_days n on n.day = d.day + 1
        where d.day > drop_log_partition.day and n.day <= (now() at time zone 'UTC')::date
    ) then
        return;
    end if;
    execute format('select max(l.position) from shardclock.%I l', partition_name) into last_position;
    select min(c.group_name) into kept_for
    from shardclock.consumers c
    where c.position < last_position;
    dropped := kept_for is null;
    if dropped then
        perform shardclock.require_partition_unlocked(partition_name);
        -- Wait only briefly for the lock, because all writers of the log wait behind this call.
        set local lock_timeout = '100ms';
        lock table only shardclock.command_log in access exclusive mode;
        execute format('lock table shardclock.%I in access exclusive mode', partition_name);
        -- Check again: a transaction with records of that day may have committed after the first check.
        execute format('select max(l.position) from shardclock.%I l', partition_name) into last_position;
        select min(c.group_name) into kept_for
        from shardclock.consumers c
        where c.position < last_position;
        dropped := kept_for is null;
    end if;
    if dropped then
        execute format('alter table shardclock.command_log detach partition shardclock.%I', partition_name);
        execute format('drop table shardclock.%I', partition_name);
        delete from shardclock.log_days d where d.day <= drop_log_partition.day;
    end if;
    return next;
end
$$;

comment on function shardclock.drop_log_partition is
    'Internal: Drops the oldest day of the log, if a coordinator has led on keep_days later days and each group has read the day. Returns the day and whether it was dropped, or else a group that has not read it.';
