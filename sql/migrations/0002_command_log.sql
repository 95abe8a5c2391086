-- The append-only record of everything that happened, one partition for each day. 0008_consumers.sql has its readers.

-- `cache` must stay 1: a session with cached values would draw positions below its mark.
create sequence shardclock.position_seq as bigint cache 1;

create table shardclock.command_log (
    position bigint not null default nextval('shardclock.position_seq'),
    recorded_at timestamptz not null default clock_timestamp(),
    timer_key bigint not null,
    process_instance_key bigint,
    element_instance_key bigint,
    due_date timestamptz not null,
    created_at timestamptz not null,
    occurrence bigint not null,
    holder bigint,
    intent text not null,
    tenant_id text not null,
    timer_type text not null,
    target text not null,
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,
    detail jsonb
) partition by range (recorded_at);

alter sequence shardclock.position_seq owned by shardclock.command_log.position;

-- Readers scan by position; `show`, and the answer to a cancel that came too late, search by key and by name.
create index command_log_in_order on shardclock.command_log (position);
create index command_log_by_timer_key on shardclock.command_log (timer_key);
create index command_log_by_name on shardclock.command_log (tenant_id, name, recorded_at) where name is not null;
-- An operation that is sent again finds the records that it wrote before.
create index command_log_by_operation on shardclock.command_log ((detail ->> 'operation'))
where detail ->> 'operation' is not null;

-- Takes the records of days without a partition, so that a firing never fails because one is missing.
create table shardclock.command_log_default partition of shardclock.command_log default;

comment on table shardclock.command_log is
    'Append-only, in the order of position. Read it by shardclock.read_log: a reader of the table may skip records, '
    'because a position is drawn before its transaction commits.';
comment on column shardclock.command_log.position is
    'Drawn by the column''s default alone, while the timer''s row is locked: so a timer''s records are in the order in '
    'which things happened.';
comment on column shardclock.command_log.recorded_at is 'When it happened, by Postgres''s clock.';
comment on column shardclock.command_log.due_date is 'The due date that the timer had until then.';
comment on column shardclock.command_log.intent is 'TRIGGERED, CANCELED, RESCHEDULED, SKIPPED, PAUSED or RESUMED.';
comment on column shardclock.command_log.holder is
    'The holder that fired the timer; null if a client wrote the record.';
comment on column shardclock.command_log.detail is
    'TRIGGERED: changed_at, if a client had set a new due date. CANCELED, PAUSED: reason, by; CANCELED: replaced_by. '
    'RESCHEDULED: due_date, schedule, by. SKIPPED: count (how many did not fire, from this occurrence on), policy.';

-- Counting the log's records by intent would read all of it. A sequence counts without a lock and is read at once. It
-- counts rolled-back changes too, as Postgres's own statistics do, and a crash may add up to 32.
create sequence shardclock.canceled_seq as bigint;
create sequence shardclock.rescheduled_seq as bigint;
create sequence shardclock.paused_seq as bigint;
create sequence shardclock.resumed_seq as bigint;

comment on sequence shardclock.canceled_seq is 'How many timers clients have cancelled: a count for metrics.';
comment on sequence shardclock.rescheduled_seq is 'How many timers clients have moved: a count for metrics.';
comment on sequence shardclock.paused_seq is 'How many timers clients have paused: a count for metrics.';
comment on sequence shardclock.resumed_seq is 'How many timers clients have resumed: a count for metrics.';

-- What orders the log: docs/decisions/0024-the-log-reads-by-position.md. A transaction that inserts takes a mark before
-- its first position is drawn: a shared advisory lock, held until the transaction ends, whose key is the sequence's
-- value at that time. So all positions that it draws are above its mark, and no new record can appear below the lowest
-- mark.
create function shardclock.mark_log_writer()
returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- Never by `select last_value`: that reads without the page's lock, and may see a value that is 32 too high while
    -- the sequence logs values ahead.
    drawn bigint := coalesce(pg_sequence_last_value('shardclock.position_seq'), 0);
    said text := current_setting('shardclock.log_marked', true);
    mark bigint := drawn;
begin
    -- One mark for each transaction is enough; taking the same one again needs no new lock. Whatever a client wrote
    -- into the setting, a mark is taken, and it is not above the drawn positions. A rollback to a savepoint undoes the
    -- setting together with the lock.
    if said ~ '^-?[0-9]{1,18}$' then
        if said::bigint between drawn - 1000000000 and drawn then
            mark := said::bigint;
        end if;
    end if;
    -- Any role that may connect may hold any key. So this waits for no key: a lower mark is as correct, and makes
    -- readers wait a little longer.
    for step in 1 .. 65536 loop
        if pg_try_advisory_xact_lock_shared(1936221036, (mark & 2147483647)::integer) then -- "shcl"
            perform set_config('shardclock.log_marked', mark::text, true);
            return null;
        end if;
        mark := mark - 1;
    end loop;
    raise exception 'the log can''t be written: all marks from % down are held by others, '
        'one by the backend with pid %: end it by pg_terminate_backend', drawn, (
        select l.pid
        from pg_locks l
        where l.locktype = 'advisory' and l.classid = 1936221036 and l.objsubid = 2 and l.mode = 'ExclusiveLock'
            and l.database = (select d.oid from pg_database d where d.datname = current_database())
        limit 1
    )
        using errcode = 'object_in_use';
end
$$;

-- A trigger, not a part of the statements: one statement without its mark would make readers lose records of others.
create trigger command_log_marks_writers before insert on shardclock.command_log
    for each statement execute function shardclock.mark_log_writer();
alter table shardclock.command_log enable always trigger command_log_marks_writers;

create function shardclock.log_horizon()
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- The sequence is read first, then the locks. A position drawn after the first reading is above `drawn`. A
    -- transaction that drew before it still holds a lock, or has ended before the caller's next snapshot.
    drawn bigint := pg_sequence_last_value('shardclock.position_seq');
begin
    if pg_is_in_recovery() then
        raise exception 'the log can''t be read on a replica: it does not know who writes; read it on the primary'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if drawn is null and not has_sequence_privilege('shardclock.position_seq', 'select, usage') then
        raise exception '% may not read the log: grant select on sequence shardclock.position_seq to it', current_user
            using errcode = 'insufficient_privilege';
    end if;
    return greatest(0, least(
        coalesce(drawn, 0),
        (
            with ours as materialized (
                select l.pid, l.locktype, l.objid
                from pg_locks l
                where l.database = (select d.oid from pg_database d where d.datname = current_database())
                    and (
                        l.locktype = 'advisory' and l.classid = 1936221036 and l.objsubid = 2 and l.mode = 'ShareLock'
                        or l.locktype = 'relation' and l.relation = 'shardclock.command_log'::regclass
                        and l.mode = 'RowExclusiveLock'
                    )
                    and l.granted
            )
            -- A key has the last 31 bits of a mark; the mark is the number nearest to `drawn` with these bits.
            select min(drawn + ((m.objid::bigint - drawn + 1073741824) & 2147483647) - 1073741824)
            from ours m
            where m.locktype = 'advisory'
                -- Anybody may take such a lock. A writer has locked the table before it takes its mark, until it ends.
                -- A prepared transaction has no pid; while it is being prepared, one of its two locks may still have
                -- one.
                and (
                    m.pid is null
                    or exists (select from ours t where t.locktype = 'relation' and (t.pid = m.pid or t.pid is null))
                )
        )
    ));
end
$$;

comment on function shardclock.log_horizon is $$Returns the horizon, the position up to which the log is complete: a
statement that begins after this one sees all records up to there, and no new one can appear. read_log asks for it
first. A later call may return a lower position. Then a writer had begun before the first call, and took its mark only
after it. Both answers are right.

returns: a position; 0 before the first record
errors: 55000 on a replica; 42501 without a right on the sequence shardclock.position_seq
example: select shardclock.log_horizon();
$$;

-- The transactions that limit log_horizon.
create view shardclock.log_writers as
with ours as materialized (
    select l.pid, l.locktype, l.virtualtransaction
    from pg_locks l
    where l.database = (select d.oid from pg_database d where d.datname = current_database())
        and (
            l.locktype = 'advisory' and l.classid = 1936221036 and l.objsubid = 2 and l.mode = 'ShareLock'
            or l.locktype = 'relation' and l.relation = 'shardclock.command_log'::regclass
            and l.mode = 'RowExclusiveLock'
        )
        and l.granted
)
select
    m.pid, a.usename as role_name, a.application_name, coalesce(a.xact_start, p.prepared) as began_at, a.state,
    a.query, p.gid as prepared_as
from ours m
left join pg_stat_activity a on a.pid = m.pid
left join pg_locks x
    on m.pid is null and x.pid is null and x.locktype = 'transactionid' and x.virtualtransaction = m.virtualtransaction
left join pg_prepared_xacts p on p.transaction = x.transactionid
where m.locktype = 'advisory'
    and (
        m.pid is null
        or exists (select from ours t where t.locktype = 'relation' and (t.pid = m.pid or t.pid is null))
    );

comment on view shardclock.log_writers is
    'Open transactions that have written to the log: readers stop before the first position that one may have drawn.';

create function shardclock.read_log(
    after bigint default 0,
    page_size integer default 500,
    partition integer default 0,
    partitions integer default 1,
    horizon bigint default null
)
returns setof shardclock.command_log
language plpgsql
set search_path = pg_catalog, pg_temp
-- Always by index, whatever the planner believes about the partition of a day that has just begun.
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
        raise exception 'the log can''t be read in a % transaction: its snapshot is older than the look at who writes; '
            'use read committed', current_setting('transaction_isolation')
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if settled is null then
        settled := shardclock.log_horizon();
    end if;
    -- A separate statement, so that its snapshot is newer than the horizon.
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

comment on function shardclock.read_log is $$Reads the records after a position, in order: each record once, and none
is skipped, even if it was committed late. A transaction that has written to the log and has not committed yet holds
readers back before its first record; the view shardclock.log_writers shows such transactions.

after: the position of the last record that you have; 0 reads from the beginning
page_size: how many records at most
partition: with partitions: reads only timers whose timer_key % 840 % partitions is this number
partitions: in how many parts the log is read, 1 to 840
horizon: the result of log_horizon in an earlier statement, to read only up to there; null asks log_horizon now
returns: rows of command_log, in the order of position; no rows: you are at the end, ask again later
errors: 55000 in a transaction that is not read committed, and on a replica; 42501 without a right on the sequence shardclock.position_seq
example: select position, intent, timer_key from shardclock.read_log(after => 0, page_size => 100);
$$;

create function shardclock.ensure_log_partitions(days_ahead integer default 7)
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

-- Refuses with 55P03, without waiting, while another transaction (a dump, a long report) has locked a partition: to ask
-- for the whole log's lock then would be in vain, and everybody who writes would wait behind that request.
create function shardclock.check_nobody_keeps(partition_name text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('lock table shardclock.%I in access exclusive mode nowait', partition_name);
    -- We got the lock. This exception releases it again, because the log itself must be locked first.
    raise exception using errcode = 'SC001';
exception when sqlstate 'SC001' then
    return;
end
$$;

-- If records went to the default partition, because their day had none, that partition becomes the day's own when the
-- day is over. The table itself is attached, so no record is moved, however many there are.
create function shardclock.rehome_log_default()
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
    -- Named after its last day, so that it is not dropped too early.
    partition_name := 'command_log_' || to_char(last_day, 'YYYYMMDD');
    perform shardclock.check_nobody_keeps('command_log_default');
    -- All writers of the log wait behind us while we wait for this lock: so not for long.
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
    -- Another transaction has locked the log, or a day in between has its own partition: the records stay safe here.
    return 0;
end
$$;

-- The days on which a coordinator led, by Postgres's clock at the time. Retention counts these and not the calendar's
-- days: else a clock that jumps forward by 40 days would make it drop everything.
create table shardclock.log_days (
    day date not null,

    constraint log_days_pkey primary key (day)
);

comment on table shardclock.log_days is 'The days on which a coordinator led: retention counts these.';

-- Drops the oldest day, if that is allowed: one day in each call, so that the log is locked only for a moment. Days are
-- dropped in order, and never before every group has read them: so no reader meets a gap.
create function shardclock.drop_log_partition(keep_days integer)
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
        raise exception 'keep_days % is not possible: keep at least 1 day', keep_days
            using errcode = 'invalid_parameter_value';
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
    -- A day counts as passed when the next day was recorded too: for the last day before a clock's jump it was not.
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
        perform shardclock.check_nobody_keeps(partition_name);
        -- All writers of the log wait behind us while we wait for this lock: so not for long.
        set local lock_timeout = '100ms';
        lock table only shardclock.command_log in access exclusive mode;
        execute format('lock table shardclock.%I in access exclusive mode', partition_name);
        -- A transaction that had written to that day may have committed since the first check.
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
    'Internal: Drops the oldest day of the log if a coordinator has led on keep_days days since then and every group '
    'has read it; returns that day, and whether it was dropped or for which group it was kept.';

select shardclock.ensure_log_partitions();
