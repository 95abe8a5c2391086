-- Pending and paused timers, and the time zones of their rules. Records of timers that have ended are in the command
-- log.
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
    -- In a plain timer, the columns that only schedules need are null, so its insert writes a sixth less write-ahead
    -- log.
    zone text,
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,
    -- Occurrence n of a repeat is due at anchor + (n - anchor_occurrence) periods.
    anchor_occurrence bigint default 0,
    missed text,
    -- The rule for missed occurrences that a client chose at the resume. The rule has an effect only while the row is
    -- due before changed_at, the moment of the resume.
    missed_once text,
    -- The due date of a paused timer. (Its `due_date` is the last possible moment, which no shard reaches.)
    paused_due_date timestamptz,
    -- The end of a pause, and the choice for missed occurrences at this end. Null if the pause has no end; a null takes
    -- no space.
    resume_at timestamptz,
    resume_missed text,
    -- When a client last set the due date (moved, resumed or ran the timer); null if the timer was only scheduled. For a
    -- paused timer: when it was paused.
    changed_at timestamptz,
    -- For a schedule that is run now: the due date of the occurrence after the run. For other timers null; a null takes
    -- no space.
    kept_due_date timestamptz,
    -- The schedule's fixed period, which its first firing writes. Null if a claim can't compute the next due date; a
    -- null takes no space.
    period_us bigint,

    constraint timers_pkey primary key (timer_key),
    -- A trigger below checks all other rules. If these rules were check constraints, each statement would read and plan
    -- them again. Check constraints would take 50 µs, eight times the cost of the row. The trigger does not run for a
    -- claim, because a claim changes only the columns of these two constraints.
    constraint claim_is_whole check ((claimed_by is null) = (claimed_until is null)),
    constraint claim_ends check (isfinite(claimed_until))
)
-- A claim updates no indexed column; with free space in each page, these updates are heap-only.
-- The table is a queue: dead rows pile up at the front of every slot, so vacuum runs early and without a cost limit.
with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

alter sequence shardclock.timer_key_seq owned by shardclock.timers.timer_key;

-- With few samples the planner can't estimate whether a prefix of names is rare or common.
alter table shardclock.timers alter column name set statistics 1000;

-- A scan marks the entries of fired timers as dead, and later scans skip them. Without deduplication each timer has its
-- own entry. An entry for many timers with the same due date is dead only after all of them have fired.
create index timers_by_slot on shardclock.timers (slot, due_date) with (deduplicate_items = off);

create index timers_by_tenant on shardclock.timers (tenant_id, due_date, timer_key)
-- The index leaves out the tenant `default` of users without tenants, because the index costs a third of a bulk insert
-- and 105 bytes of write-ahead log for each timer.
where tenant_id <> 'default';

create index timers_by_process_instance on shardclock.timers (process_instance_key)
where process_instance_key is not null;

-- The index is unique, and also serves searches by prefix, with any collation.
create unique index timers_by_name_prefix on shardclock.timers (tenant_id, name text_pattern_ops)
where name is not null;

-- The index leaves out timers with the target log, so that their inserts don't write to the index. A claim changes no
-- column of the index, so the claim's update is heap-only.
create index timers_by_target on shardclock.timers (target, due_date, timer_key) where target <> 'log';

-- An instance may have thousands of tokens, each with a timer. An engine finds the timers of one token by this index.
-- The key is an expression, so that no plan uses timers_by_process_instance for this search. A plan with that index
-- would read the timers of all tokens.
create index timers_by_token on shardclock.timers ((process_instance_key + 0), element_instance_key)
    where (target = 'process:instance') is true;

-- The index leaves out timers that no client has changed, so only a client's change writes to the index.
create index timers_by_change on shardclock.timers (tenant_id, changed_at, timer_key) where changed_at is not null;

-- The index leaves out plain timers, so they never write to the index.
create index schedules_by_tenant on shardclock.timers (tenant_id) where schedule is not null;

-- A shard reads the ends of pauses from this index each second. Without pauses that have an end, the index is empty,
-- and no statement writes to it: docs/decisions/0095-a-pause-has-an-end.md.
create index timers_by_resume on shardclock.timers (resume_at) where resume_at is not null;

comment on table shardclock.timers is
    'Pending and paused timers only; the records of timers that have ended are in shardclock.command_log.';
comment on column shardclock.timers.timer_key is
    'The timer''s key; each occurrence of a schedule has its own key.';
comment on column shardclock.timers.process_instance_key is 'The process instance of the timer; null: none.';
comment on column shardclock.timers.element_instance_key is 'The element instance of the timer; null: none.';
comment on column shardclock.timers.due_date is 'The due date; for a paused timer, the last possible moment, which no shard reaches.';
comment on column shardclock.timers.created_at is
    'The time at which the timer was scheduled or its key was drawn; for a later occurrence, the time of the last firing.';
comment on column shardclock.timers.claimed_until is 'The end of the lease of claimed_by.';
comment on column shardclock.timers.tenant_id is 'The tenant of the timer.';
comment on column shardclock.timers.timer_type is 'BOUNDARY, INTERMEDIATE, START_EVENT or USER.';
comment on column shardclock.timers.target is
    'The target of the firing: a handler, an endpoint, a job or process:instance; log: the firing only writes a log record.';
comment on column shardclock.timers.target_element_id is 'The element of a process for which the timer is scheduled.';
comment on column shardclock.timers.name is
    'Unique among the tenant''s pending timers; all occurrences of a schedule have the same name.';
comment on column shardclock.timers.schedule is
    'The rule from which the next occurrence is computed; null: the timer fires once.';
comment on column shardclock.timers.payload is 'The caller''s data, copied into the timer''s records.';
comment on column shardclock.timers.slot is 'timer_key % 840; shard i of N keeps the slots with slot % N = i.';
comment on column shardclock.timers.repetitions is
    'The number of the schedule''s last occurrence; each skipped occurrence adds one. -1: no end; 1 for a plain timer.';
comment on column shardclock.timers.occurrence is 'The number of this occurrence of its schedule, from 1.';
comment on column shardclock.timers.anchor is
    'The moment at which the rule begins: for a repeat the start of the repeat, for cron the due date of this occurrence.';
comment on column shardclock.timers.anchor_occurrence is
    'The number of the occurrence at the anchor; null: no shard has computed the first due date yet.';
comment on column shardclock.timers.zone is
    'The IANA time zone for months, days and cron rules; null: UTC.';
comment on column shardclock.timers.missed is
    'The rule for missed occurrences: fire_once (one firing for all of them), fire_all, or skip; null: fire_once.';
comment on column shardclock.timers.missed_once is
    'The rule for the occurrences that a pause has missed, as the resume chose: fire_once, fire_all or skip; the occurrences after the resume follow the column missed. Null: all follow that column.';
comment on column shardclock.timers.paused_due_date is
    'The due date of a paused timer (its due_date is the last possible moment). Null: the timer is not paused.';
comment on column shardclock.timers.resume_at is
    'The moment at which the pause ends, and a shard resumes the timer. Null: the pause has no end, or the timer is not paused.';
comment on column shardclock.timers.resume_missed is
    'The rule for the occurrences that the pause will have missed at resume_at: fire_once, fire_all or skip; null: the column missed.';
comment on column shardclock.timers.changed_at is
    'The time at which a client last moved, resumed or ran this timer, or changed its rule; null: never. For a paused timer, the time of its pause.';
comment on column shardclock.timers.kept_due_date is
    'For a schedule that a client runs now: the due date of the occurrence after this run. Before a shard has computed the schedule''s first due date, the value has no meaning. Null: no client has asked for a run.';
comment on column shardclock.timers.period_us is
    'The fixed period of a schedule without an end, in microseconds, after its first firing. Null: a shard computes the next occurrence from the rule.';
comment on column shardclock.timers.claimed_by is
    'The holder (one incarnation of a shard actor) that leases this row until claimed_until.';

-- A row with a period needs no check: it is the next occurrence of a schedule that was checked, and only the role of
-- shards may insert period_us (sql/roles.sql). The check would take a seventh of the time of the whole firing:
-- docs/decisions/0082-fixed-periods.md.
create trigger check_new_timer
before insert on shardclock.timers
for each row when (new.period_us is null) execute function shardclock.check_timer();

-- The trigger runs after the update, because a trigger before the update would also lock each row that a shard leases.
-- A lease changes none of the trigger's columns; its two columns have two short check constraints.
create trigger check_changed_timer
after update of
    timer_key, process_instance_key, element_instance_key, due_date, created_at, anchor, anchor_occurrence,
    paused_due_date, resume_at, resume_missed, kept_due_date, period_us, changed_at, occurrence, repetitions, tenant_id, timer_type, target, zone, missed,
    missed_once, target_element_id, name, schedule, payload
on shardclock.timers
for each row execute function shardclock.check_timer();

-- The trigger also runs in sessions that set session_replication_role, because a row that breaks a rule would stop a
-- shard.
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
    'The IANA time zones that this Postgres knows. A search in this table is faster than in Postgres''s view, and finds no abbreviations.';

create type shardclock.ensured_timer as (timer_key bigint, due_date timestamptz, outcome text);

comment on type shardclock.ensured_timer is
    'The timer that now has the name, and the outcome: created, replaced (the timer replaced another timer) or unchanged.';

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
    changed_at timestamptz,
    resume_at timestamptz,
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
