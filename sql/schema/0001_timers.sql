-- Pending and paused timers, and the time zones of their rules. Records of timers that have ended are in the command log.
--
-- needs: check_timer

create sequence shardclock.timer_key_seq as bigint;

create table shardclock.timers (
    timer_key bigint not null default nextval('shardclock.timer_key_seq'),
    process_instance_key bigint,
    element_instance_key bigint,
    due_date timestamptz not null,
    created_at timestamptz not null default now(),
    anchor timestamptz,
    claimed_by bigint,
    claimed_until timestamptz,
    occurrence bigint not null default 1,
    repetitions integer not null default 1,
    slot smallint not null generated always as ((timer_key % 840)::smallint) stored,
    tenant_id text not null default 'default',
    timer_type text not null default 'USER',
    target text not null default 'log',
    -- A plain timer leaves the columns that only schedules need null: its insert writes a sixth less write-ahead log.
    zone text,
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,
    -- Occurrence n of a repeat is due at anchor + (n - anchor_occurrence) periods.
    anchor_occurrence bigint default 0,
    missed text,
    -- A paused timer keeps its due date here; `due_date` then is the end of time, which no shard ever reaches.
    paused_due_date timestamptz,
    -- When a client last set the due date (moved, resumed or ran the timer); null if the timer was only scheduled.
    changed_at timestamptz,
    -- Of a schedule that is run now: the due date of the occurrence after this one. Else null, which takes no room.
    kept_due_date timestamptz,

    constraint timers_pkey primary key (timer_key),
    -- A trigger below checks all other rules: as check constraints, each statement read them from the catalog and
    -- planned them again, 50 µs, eight times the cost of the row. Claims change only these two columns, so their rules
    -- stay here.
    constraint claim_is_whole check ((claimed_by is null) = (claimed_until is null)),
    constraint claim_ends check (isfinite(claimed_until))
)
-- A claim updates no indexed column; the room left in each page keeps these updates heap-only.
-- The table is a queue: dead rows pile up at the front of every slot, so vacuum runs early and without a cost limit.
with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

alter sequence shardclock.timer_key_seq owned by shardclock.timers.timer_key;

-- With few samples the planner can't tell whether a prefix of names is rare or common.
alter table shardclock.timers alter column name set statistics 1000;

create index timers_by_slot on shardclock.timers (slot, due_date);

create index timers_by_tenant on shardclock.timers (tenant_id, due_date, timer_key)
-- Users without tenants don't pay for this index: it is a third of a bulk insert, and 105 bytes of WAL for each timer.
where tenant_id <> 'default';

create index timers_by_process_instance on shardclock.timers (process_instance_key)
where process_instance_key is not null;

-- Unique, and of use for searches by prefix too, whatever the collation.
create unique index timers_by_name_prefix on shardclock.timers (tenant_id, name text_pattern_ops)
where name is not null;

-- Plain timers, whose target is the log, are not in this index: they pay nothing for it. A claim changes none of its
-- columns, so it stays heap-only.
create index timers_by_target on shardclock.timers (target, due_date, timer_key) where target <> 'log';

-- One instance may have thousands of tokens, each with a timer. An engine finds the timers of one token by this index. The
-- key is an expression, so that no plan takes timers_by_process_instance, which would read the timers of all tokens.
create index timers_by_token on shardclock.timers ((process_instance_key + 0), element_instance_key)
    where (target = 'process:instance') is true;

-- Plain timers are not in it, so neither their creation nor their firing writes it.
create index schedules_by_tenant on shardclock.timers (tenant_id) where schedule is not null;

comment on table shardclock.timers is
    'Pending and paused timers only; the records of timers that have ended are in shardclock.command_log.';
comment on column shardclock.timers.timer_key is
    'The timer''s key; each occurrence of a schedule has a key of its own.';
comment on column shardclock.timers.process_instance_key is 'The process instance that the timer is for, if any.';
comment on column shardclock.timers.element_instance_key is 'The element instance that the timer is for, if any.';
comment on column shardclock.timers.due_date is 'When the timer is due; of a paused timer, the end of time.';
comment on column shardclock.timers.created_at is
    'When the timer was scheduled, or its key was drawn; of a later occurrence, when the one before it fired.';
comment on column shardclock.timers.claimed_until is 'When the lease of claimed_by ends.';
comment on column shardclock.timers.tenant_id is 'The tenant that the timer belongs to.';
comment on column shardclock.timers.timer_type is 'BOUNDARY, INTERMEDIATE, START_EVENT or USER.';
comment on column shardclock.timers.target is
    'What the firing calls; log: it calls nothing, and only writes its record.';
comment on column shardclock.timers.target_element_id is 'The element of a process that the timer is for, if any.';
comment on column shardclock.timers.name is
    'Unique among the tenant''s pending timers; all occurrences of a schedule have the same name.';
comment on column shardclock.timers.schedule is
    'The rule that makes one timer after another; null: the timer fires once.';
comment on column shardclock.timers.payload is 'The caller''s data; it is copied into the timer''s records.';
comment on column shardclock.timers.slot is 'timer_key % 840; shard i of N keeps the slots with slot % N = i.';
comment on column shardclock.timers.repetitions is
    'The number of the schedule''s last occurrence; each skipped occurrence adds one. -1: no end; 1 for a plain timer.';
comment on column shardclock.timers.occurrence is 'Which occurrence of its schedule this timer is, from 1.';
comment on column shardclock.timers.anchor is
    'The start of the schedule''s grid: for a repeat its start, for cron the due date of this occurrence.';
comment on column shardclock.timers.anchor_occurrence is
    'The number of the occurrence at the anchor; null: no shard has planned this schedule yet.';
comment on column shardclock.timers.zone is
    'The IANA zone on whose clock months, days and cron are counted; null is UTC.';
comment on column shardclock.timers.missed is
    'What happens to missed occurrences: fire_once (one firing for all of them), fire_all, or skip; null is fire_once.';
comment on column shardclock.timers.paused_due_date is
    'The due date of a paused timer, whose due_date is the end of time; null: the timer is not paused.';
comment on column shardclock.timers.changed_at is
    'When a client last moved, resumed or ran this timer, or gave it another rule; null: never.';
comment on column shardclock.timers.kept_due_date is
    'Of a schedule that is run now: when the occurrence after this one is due, whatever the rule says. Before the '
    'schedule is planned it has any value. Null: no run was asked for.';
comment on column shardclock.timers.claimed_by is
    'The holder (one incarnation of a shard actor) that leases this row until claimed_until.';

create trigger check_new_timer
before insert on shardclock.timers
for each row execute function shardclock.check_timer();

-- After the update: a trigger before it would lock each row that a shard leases, whatever columns it names. A lease
-- changes none of these columns; its own two check constraints are short.
create trigger check_changed_timer
after update of
    timer_key, process_instance_key, element_instance_key, due_date, created_at, anchor, anchor_occurrence,
    paused_due_date, kept_due_date, changed_at, occurrence, repetitions, tenant_id, timer_type, target, zone, missed,
    target_element_id, name, schedule, payload
on shardclock.timers
for each row execute function shardclock.check_timer();

-- Always, even if a session sets session_replication_role: a row that breaks a rule would stop a shard.
alter table shardclock.timers enable always trigger check_new_timer;

alter table shardclock.timers enable always trigger check_changed_timer;

create table shardclock.zones (
    zone text not null,

    constraint zones_pkey primary key (zone)
);

insert into shardclock.zones (zone)
select name
from pg_timezone_names
where name !~ '^(posix|right)/' and name not in ('localtime', 'posixrules', 'Factory')
on conflict do nothing;

comment on table shardclock.zones is
    'The IANA time zones that this Postgres knows. A search here is fast, and finds no abbreviations.';

create type shardclock.ensured_timer as (timer_key bigint, due_date timestamptz, outcome text);

comment on type shardclock.ensured_timer is
    'The timer that has the name now, and the outcome: created, replaced (it replaced another timer) or unchanged.';

create type shardclock.found_timer as (
    timer_key bigint,
    state text,
    tenant_id text,
    name text,
    timer_type text,
    process_instance_key bigint,
    element_instance_key bigint,
    target_element_id text,
    due_date timestamptz,
    created_at timestamptz,
    schedule text,
    zone text,
    missed text,
    occurrence bigint,
    target text,
    payload jsonb,
    ended_at timestamptz,
    holder bigint,
    detail jsonb,
    page text
);
