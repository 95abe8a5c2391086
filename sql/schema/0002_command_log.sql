-- The append-only record of all changes, one partition for each day. 0004_consumers.sql has its readers.
--
-- needs: mark_log_writer, ensure_log_partitions

-- `cache` must be 1, because a session with cached values would draw positions below its mark.
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

-- The default partition takes the records of days without a partition, so that no firing fails.
create table shardclock.command_log_default partition of shardclock.command_log default;

-- Readers scan by position. `shardclock show` searches by key and by name. A late cancellation searches in the same
-- way, to return how the timer ended.
create index command_log_in_order on shardclock.command_log (position);

create index command_log_by_timer_key on shardclock.command_log (timer_key);

create index command_log_by_name on shardclock.command_log (tenant_id, name, recorded_at) where name is not null;

-- With this index, a repeated operation finds the records of its first call.
create index command_log_by_operation on shardclock.command_log ((detail ->> 'operation'))
where detail ->> 'operation' is not null;

comment on table shardclock.command_log is
    'Append-only, in the order of position. Read it with shardclock.read_log: a query of the table can miss records, because a position is drawn before its transaction commits.';
comment on column shardclock.command_log.position is
    'Drawn only by the column''s default, while the timer''s row is locked, so that a timer''s records have the order of its changes.';
comment on column shardclock.command_log.recorded_at is 'The time of the change, by Postgres''s clock.';
comment on column shardclock.command_log.due_date is 'The timer''s due date before the change.';
comment on column shardclock.command_log.intent is
    'TRIGGERED, CANCELED, RESCHEDULED, SKIPPED, PAUSED or RESUMED; the end of a delivery: DELIVERED, DISCARDED or DEAD; REDRIVEN: a dead letter is delivered again; STALE: a signal reached an instance that had ended; the state of a job: SCHEDULED, STARTING, RUNNING, TERMINATING or DISABLED.';
comment on column shardclock.command_log.holder is
    'The holder that fired the timer; null if a client wrote the record.';
comment on column shardclock.command_log.detail is
    'TRIGGERED: changed_at, if a client had set a new due date. CANCELED, PAUSED: reason, by; CANCELED: replaced_by. PAUSED, RESUMED: until (the end of the pause; in RESUMED only if a shard ended the pause), missed. RESCHEDULED: due_date, schedule, by. SKIPPED: count (occurrences that did not fire, from this one on), policy. DELIVERED, DISCARDED, DEAD: attempt, ms (the duration of the last attempt), reason, result, by, worker (the program that did a service task). REDRIVEN: by. Beside by, over HTTP: key_prefix, the first characters of the API key.';

-- A trigger takes the mark for all statements, because a single statement without a mark would make readers miss
-- records.
create trigger command_log_marks_writers before insert on shardclock.command_log
    for each statement execute function shardclock.mark_log_writer();

alter table shardclock.command_log enable always trigger command_log_marks_writers;

-- A count of the log's records by intent would read the whole log. A sequence counts without a lock, and can be read
-- immediately. The sequence also counts changes that were rolled back, like Postgres's own statistics, and a crash may
-- add up to 32.
create sequence shardclock.canceled_seq as bigint;

comment on sequence shardclock.canceled_seq is 'The number of timers that clients have cancelled, for metrics.';

create sequence shardclock.rescheduled_seq as bigint;

comment on sequence shardclock.rescheduled_seq is 'The number of timers that clients have moved, for metrics.';

create sequence shardclock.paused_seq as bigint;

comment on sequence shardclock.paused_seq is 'The number of timers that clients have paused, for metrics.';

create sequence shardclock.resumed_seq as bigint;

comment on sequence shardclock.resumed_seq is
    'The number of timers that clients have resumed, and of pauses that have ended, for metrics.';

-- The open transactions that limit log_horizon.
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
    'Open transactions that have written to the log. Readers stop before the first position that an open transaction may have drawn.';

-- The days on which a coordinator led, by Postgres's clock at the time. Retention counts these days instead of calendar
-- days, so that it does not drop all partitions if the clock jumps forward by 40 days.
create table shardclock.log_days (
    day date not null,

    constraint log_days_pkey primary key (day)
);

comment on table shardclock.log_days is 'The days on which a coordinator led; retention counts these days.';

-- By default a view reads with its owner's rights, and row-level security does not limit the owner. So the view
-- timer_history reads with the caller's rights: docs/decisions/0056-row-level-security.md.
create view shardclock.timer_history with (security_invoker = true) as
select
    timer_key, case when paused_due_date is null then 'PENDING' else 'PAUSED' end as state,
    tenant_id, name, timer_type, process_instance_key, element_instance_key,
    target_element_id, coalesce(paused_due_date, due_date) as due_date, created_at, schedule, occurrence, target,
    payload, null::timestamptz as ended_at, claimed_by as holder, null::jsonb as detail,
    coalesce(zone, 'UTC') as zone, coalesce(missed, 'fire_once') as missed, changed_at, resume_at
from shardclock.timers
union all
select
    timer_key, intent, tenant_id, name, timer_type, process_instance_key, element_instance_key,
    target_element_id, due_date, created_at, schedule, occurrence, target, payload,
    recorded_at, holder, detail, null, null, null, null
from shardclock.command_log
where intent in ('TRIGGERED', 'CANCELED') or (intent = 'SKIPPED' and detail ->> 'policy' = 'skip');

comment on view shardclock.timer_history is
    'Every timer, past and present, with its state: PENDING, PAUSED, TRIGGERED, CANCELED or SKIPPED (missed: skip).';
comment on column shardclock.timer_history.state is 'PENDING, PAUSED, TRIGGERED, CANCELED or SKIPPED.';
comment on column shardclock.timer_history.due_date is
    'The due date; for a paused timer, its due date before the pause.';
comment on column shardclock.timer_history.changed_at is
    'The time at which a client last changed the due date; for a paused timer, the time of its pause; null: never, or the timer has ended.';
comment on column shardclock.timer_history.resume_at is
    'For a paused timer: the end of its pause; null: the pause has no end.';
comment on column shardclock.timer_history.ended_at is 'The time of the end; null: the timer has not ended.';
comment on column shardclock.timer_history.holder is
    'The holder that leases the timer or fired it; null: no holder leases it, or a client ended it.';
comment on column shardclock.timer_history.detail is
    'Values from the record of the timer''s end: reason, by, replaced_by, count, policy.';

-- The view reads with its owner's rights, because a key may belong to a timer of any tenant. The view shows only
-- numbers.
create view shardclock.logged_keys as
select l.timer_key from shardclock.command_log l;

comment on view shardclock.logged_keys is
    'The keys in the log, of all tenants, once for each record; the view shows whether a key was drawn twice.';

-- The view reads with its owner's rights, so that Postgres finds the first and the last position at the two ends of the
-- index. With a tenant's rights, the search could read the whole index. The view contains only numbers. A search for a
-- tenant's ended timers reads the log section by section, between the two positions of this view.
create view shardclock.log_ends as
select min(l.position) as first, max(l.position) as last from shardclock.command_log l;

comment on view shardclock.log_ends is
    'One row: the lowest and the highest position in the log, for the records of all tenants; nulls: the log is empty.';

-- The view reads with its owner's rights. With a tenant's rights, the search for the position of a moment could read
-- the whole log for one visible row. The view has no data of tenants.
create view shardclock.log_times as
select l.position, l.recorded_at from shardclock.command_log l;

comment on view shardclock.log_times is
    'The time of each position of the log, for the records of all tenants; a search finds the first position after a moment.';

select shardclock.ensure_log_partitions();
