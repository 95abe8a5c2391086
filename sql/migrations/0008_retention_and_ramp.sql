-- What is kept of the past, and how fast an outage is caught up with.

alter table shardclock.coordination
    add column ramp_per_s integer default 150000,
    add constraint ramp_per_s_is_not_negative check (ramp_per_s >= 0);

comment on column shardclock.coordination.ramp_per_s is
    'How many timers that an outage left overdue the cluster fires in a second, fair between tenants; null: no limit.';

-- What the default partition had to take, because a day's own was missing, becomes a partition once that day is over:
-- the table itself, so no record is moved, however many there are.
create function shardclock.rehome_log_default()
returns integer
language plpgsql
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
    -- Named by its last day, so that it is not dropped too early.
    partition_name := 'command_log_' || to_char(last_day, 'YYYYMMDD');
    -- Whoever writes to the log waits behind us while we wait for the lock: not for long.
    set local lock_timeout = '200ms';
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
    -- Somebody keeps the log open, or a day in between has a partition of its own: the records are safe where they are.
    return 0;
end
$$;

-- The oldest day, if it may go: one a call, so that the log is locked for a moment only. Days go in order, and none
-- that somebody has yet to read: so no reader meets a hole.
create function shardclock.drop_log_partition(keep_days integer)
returns table (day date, dropped boolean, kept_for text)
language plpgsql
as $$
declare
    partition_name text;
    last_xid xid8;
    last_position bigint;
begin
    if keep_days is null or keep_days < 1 then
        raise exception 'keep_days % is not possible: keep at least 1 day', keep_days using errcode = 'invalid_parameter_value';
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
    execute format('select l.xid, l.position from shardclock.%I l order by l.xid desc, l.position desc limit 1', partition_name)
    into last_xid, last_position;
    select min(c.group_name) into kept_for
    from shardclock.consumers c
    where (c.xid, c.position) < (last_xid, last_position);
    dropped := kept_for is null;
    if dropped then
        -- Whoever writes to the log waits behind us while we wait for the lock: not for long.
        set local lock_timeout = '200ms';
        execute format('alter table shardclock.command_log detach partition shardclock.%I', partition_name);
        execute format('drop table shardclock.%I', partition_name);
    end if;
    return next;
end
$$;

comment on function shardclock.drop_log_partition is
    'Drops the oldest day of the log if it is older than keep_days and every consumer has read it; tells which, or who keeps it.';
