-- Pending timers, and nothing else: the records of timers that have ended are in the command log.

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
    'Of a schedule that is run now: when the occurrence after this one is due, whatever the rule says; else null.';
comment on column shardclock.timers.claimed_by is
    'The holder (one incarnation of a shard actor) that leases this row until claimed_until.';

-- A timer that was overdue already when a client scheduled, moved or resumed it is late from that moment on, not from
-- its due date: docs/decisions/0034-late-since.md. Later occurrences are written by the firing before them, not by a
-- client: if they are late, the cluster is late.
create function shardclock.late_since(
    due_date timestamptz, created_at timestamptz, changed_at timestamptz, occurrence bigint
)
returns timestamptz
language sql
immutable
begin atomic
    select greatest(due_date, changed_at, case when occurrence = 1 then created_at end);
end;

comment on function shardclock.late_since is
    'Internal: From when on a timer is late: its due date, or the moment a client asked for it if that was later.';

-- Whether a shard may claim a row. The planner inlines the body, so that it costs no more than the condition itself.
create function shardclock.is_free(
    claimed_by bigint, claimed_until timestamptz, at timestamptz, lease interval, ended_holders bigint[]
)
returns boolean
language sql
stable
begin atomic
    -- A lease that ends more than two leases from now was taken before the clock was set back.
    select (
        claimed_until > at and claimed_until <= at + 2 * lease and claimed_by <> all (ended_holders)
    ) is not true;
end;

comment on function shardclock.is_free is
    'Internal: Says whether a timer is not leased, its lease has run out, or its holder has ended or is suspended.';

create function shardclock.out_of_range(moment timestamptz, field text)
returns text[]
language sql
immutable
begin atomic
    select array[
        field || '_is_in_years_1_to_9999',
        format('%s "%s" is out of range: a timer''s dates are in the years 1 to 9999', field, moment)
    ];
end;

-- The first rule that a row breaks, and the sentence that says so; null: it breaks none. `not null` refuses nulls.
--
-- The body is parsed once, here, so a client's `search_path` can't change what its operators mean. And the trigger's
-- plan inlines it; a `set search_path` on the trigger would cost a microsecond for each row.
create function shardclock.broken_rule(t shardclock.timers)
returns text[]
language sql
stable
begin atomic
    -- Python's datetime ends with year 9999 (and asyncpg writes its last moment as infinity). A row that it can't
    -- decode would make its whole batch fail.
    select case
        when t.timer_key < 1
            then array['timer_key_is_positive', format('timer_key %s must be at least 1', t.timer_key)]
        when t.due_date < '0001-01-01 00:00:00+00' or t.due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.due_date, 'due_date')
        when t.created_at < '0001-01-01 00:00:00+00' or t.created_at >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.created_at, 'created_at')
        when t.anchor < '0001-01-01 00:00:00+00' or t.anchor >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.anchor, 'anchor')
        when t.paused_due_date < '0001-01-01 00:00:00+00' or t.paused_due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.paused_due_date, 'paused_due_date')
        when t.changed_at < '0001-01-01 00:00:00+00' or t.changed_at >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.changed_at, 'changed_at')
        when t.kept_due_date < '0001-01-01 00:00:00+00' or t.kept_due_date >= '9999-12-31 23:59:59.999999+00'
            then shardclock.out_of_range(t.kept_due_date, 'kept_due_date')
        when (t.paused_due_date is not null) <> (t.due_date = '9999-12-31 23:59:59.999998+00')
            or (t.paused_due_date is not null and t.claimed_by is not null)
            then array[
                'pause_is_whole',
                'a paused timer has its due date in paused_due_date, and nobody leases it: '
                'pause it with shardclock.pause_timer'
            ]
        when t.tenant_id <> 'default' and (length(t.tenant_id) not between 1 and 200 or t.tenant_id ~ '[[:cntrl:]]')
            then array[
                'tenant_id_is_1_to_200_characters',
                format(
                    'tenant_id "%s" must have 1 to 200 characters, none of them a control character',
                    left(t.tenant_id, 60)
                )
            ]
        when length(t.name) not between 1 and 200 or t.name ~ '[[:cntrl:]]'
            then array[
                'name_is_1_to_200_characters',
                format('name "%s" must have 1 to 200 characters, none of them a control character', left(t.name, 60))
            ]
        when length(t.target_element_id) not between 1 and 200
            then array[
                'target_element_id_is_1_to_200_characters',
                format('target_element_id "%s" must have 1 to 200 characters', left(t.target_element_id, 60))
            ]
        when t.timer_type not in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')
            then array[
                'timer_type_is_known',
                format(
                    'timer_type "%s" is unknown: use BOUNDARY, INTERMEDIATE, START_EVENT or USER',
                    left(t.timer_type, 60)
                )
            ]
        when t.target <> 'log' and (length(t.target) not between 1 and 200 or t.target ~ '[[:cntrl:]]')
            then array[
                'target_is_1_to_200_characters',
                format(
                    'target "%s" must have 1 to 200 characters, none of them a control character', left(t.target, 60)
                )
            ]
        when t.zone !~ '^[A-Za-z][A-Za-z0-9_+/-]{0,63}$'
            then array[
                'zone_is_1_to_64_characters',
                format('zone "%s" is unknown: write an IANA name such as UTC or Europe/Berlin', left(t.zone, 60))
            ]
        when t.missed not in ('fire_once', 'fire_all', 'skip')
            then array[
                'missed_is_known',
                format('missed "%s" is unknown: use fire_once, fire_all or skip', left(t.missed, 60))
            ]
        when octet_length(t.payload::text) > 65536
            then array[
                'payload_is_at_most_64_kib',
                format('payload has %s bytes: the limit is 65536 (64 KiB)', octet_length(t.payload::text))
            ]
        when t.occurrence < 1 or not (t.repetitions = -1 or (t.repetitions >= 1 and t.occurrence <= t.repetitions))
            then array[
                'occurrence_is_within_repetitions',
                format(
                    'occurrence %s of %s is none: repetitions are -1 (without end) or a number that occurrence reaches',
                    t.occurrence, t.repetitions
                )
            ]
        -- Only timers.schedule parses schedules: a shard pauses a row whose schedule can't be parsed.
        when length(t.schedule) not between 1 and 200 or t.schedule ~ '[[:cntrl:]]'
            then array[
                'schedule_is_1_to_200_characters',
                format(
                    'schedule "%s" must have 1 to 200 characters, none of them a control character',
                    left(t.schedule, 60)
                )
            ]
        when t.schedule is null
            and (t.repetitions <> 1 or t.occurrence <> 1 or num_nonnulls(t.anchor, t.kept_due_date) > 0)
            then array[
                'schedule_is_whole',
                'repetitions, occurrence, anchor and kept_due_date are for a schedule: '
                'leave them out, or give the schedule'
            ]
        when t.schedule is not null and (t.anchor is null or t.name is null)
            then array['schedule_is_whole', format('schedule "%s" needs an anchor and a name', left(t.schedule, 60))]
    end;
end;

-- A row that breaks a rule is refused as if by a check constraint with the rule's name.
create function shardclock.check_timer()
returns trigger
language plpgsql
as $$
declare
    broken text[] := shardclock.broken_rule(new);
    named text := shardclock.named_target(new, old);
begin
    if broken is null and named is not null then
        broken := array['target_is_known', shardclock.unknown_target(named, new.tenant_id)];
    end if;
    if broken[2] is null then
        return new;
    end if;
    raise exception '%', broken[2]
        using errcode = 'check_violation', constraint = broken[1], schema = tg_table_schema, table = tg_table_name;
end
$$;

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
