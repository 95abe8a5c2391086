-- The append-only record of all that happened, a partition a day, and the cursors of those who read it.

create sequence shardclock.position_seq as bigint;

create table shardclock.command_log (
    position bigint not null default nextval('shardclock.position_seq'),
    xid xid8 not null default pg_current_xact_id(),
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

-- Readers walk (xid, position); the keys and names serve `show`, and the answer to a cancel that came too late.
create index command_log_in_order on shardclock.command_log (xid, position);
create index command_log_by_timer_key on shardclock.command_log (timer_key);
create index command_log_by_name on shardclock.command_log (tenant_id, name, recorded_at) where name is not null;

-- Takes what no day's partition takes, so that a firing never fails for want of one.
create table shardclock.command_log_default partition of shardclock.command_log default;

comment on table shardclock.command_log is 'Append-only; order by (xid, position), read below pg_snapshot_xmin(pg_current_snapshot()) only.';
comment on column shardclock.command_log.intent is 'TRIGGERED, CANCELED, RESCHEDULED or SKIPPED.';
comment on column shardclock.command_log.holder is 'The holder that fired the timer; null where a client wrote the record.';
comment on column shardclock.command_log.detail is 'CANCELED: reason, by. RESCHEDULED: due_date, by. SKIPPED: count, the occurrences not fired from this one on.';

create function shardclock.ensure_log_partitions(days_ahead integer default 7)
returns integer
language plpgsql
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
            -- Made aside and then attached: `partition of` would lock out every firing while it waits.
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
            -- The default partition already holds rows of that day: they are safe where they are.
            raise warning 'command_log keeps % in its default partition', day;
        end;
    end loop;
    return made;
end
$$;

select shardclock.ensure_log_partitions();

create view shardclock.timer_history as
select
    timer_key, 'PENDING' as state, tenant_id, name, timer_type, process_instance_key, element_instance_key,
    target_element_id, due_date, created_at, schedule, occurrence, target, payload,
    null::timestamptz as ended_at, null::bigint as holder, null::jsonb as detail
from shardclock.timers
union all
select
    timer_key, intent, tenant_id, name, timer_type, process_instance_key, element_instance_key,
    target_element_id, due_date, created_at, schedule, occurrence, target, payload,
    recorded_at, holder, detail
from shardclock.command_log
where intent in ('TRIGGERED', 'CANCELED');

comment on view shardclock.timer_history is 'Every timer, past and present, with its state: PENDING, TRIGGERED or CANCELED.';

create table shardclock.consumers (
    group_name text not null,
    xid xid8 not null default '0',
    position bigint not null default 0,
    updated_at timestamptz not null default now(),

    constraint consumers_pkey primary key (group_name),
    constraint group_name_is_1_to_200_characters check (length(group_name) between 1 and 200)
);

comment on table shardclock.consumers is 'How far each consumer group has read the command log; advanced in the transaction that does its work.';
