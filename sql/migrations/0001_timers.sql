-- Pending timers, and nothing but pending timers: what has ended lives in the command log.

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
    zone text not null default 'UTC',
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,

    constraint timers_pkey primary key (timer_key),
    constraint timer_key_is_positive check (timer_key > 0),
    -- Python's datetime ends with year 9999 (and asyncpg writes its last moment as infinity); a row it can't
    -- decode would fail its whole batch.
    constraint due_date_is_in_years_1_to_9999 check (
        due_date >= '0001-01-01 00:00:00+00' and due_date < '9999-12-31 23:59:59.999999+00'
    ),
    constraint created_at_is_in_years_1_to_9999 check (
        created_at >= '0001-01-01 00:00:00+00' and created_at < '9999-12-31 23:59:59.999999+00'
    ),
    constraint anchor_is_in_years_1_to_9999 check (
        anchor >= '0001-01-01 00:00:00+00' and anchor < '9999-12-31 23:59:59.999999+00'
    ),
    constraint claim_is_whole check ((claimed_by is null) = (claimed_until is null)),
    constraint claim_ends check (isfinite(claimed_until)),
    constraint tenant_id_is_1_to_200_characters check (
        length(tenant_id) between 1 and 200 and tenant_id !~ '[[:cntrl:]]'
    ),
    constraint name_is_1_to_200_characters check (length(name) between 1 and 200 and name !~ '[[:cntrl:]]'),
    constraint target_element_id_is_1_to_200_characters check (length(target_element_id) between 1 and 200),
    constraint timer_type_is_known check (timer_type in ('BOUNDARY', 'INTERMEDIATE', 'START_EVENT', 'USER')),
    constraint target_is_known check (target = 'log'),
    constraint zone_is_known check (zone = 'UTC'),
    constraint payload_is_at_most_64_kib check (octet_length(payload::text) <= 65536),
    constraint schedule_is_whole check (
        case when schedule is null
            then repetitions = 1 and occurrence = 1 and anchor is null
            else anchor is not null and name is not null
        end
    ),
    -- A schedule that no shard can read would be claimed and dropped for ever. The digits keep any period below
    -- 10,000 years.
    constraint schedule_is_a_repeat_of_fixed_length check (
        schedule ~ '^R(-1|[0-9]{0,10})/P(?=.)([0-9]{1,5}W)?([0-9]{1,6}D)?(T(?=[0-9])([0-9]{1,7}H)?([0-9]{1,9}M)?([0-9]{1,10}([.,][0-9]{1,9})?S)?)?$'
        and substr(schedule, strpos(schedule, '/')) ~ '[1-9]'
    ),
    constraint occurrence_is_within_repetitions check (
        occurrence >= 1 and (repetitions = -1 or (repetitions >= 1 and occurrence <= repetitions))
    )
)
-- Claiming updates no indexed column; the room left in each page keeps those updates heap-only.
-- The table is a queue: dead rows pile up at the front of every slot, so vacuum comes early and unthrottled.
with (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

alter sequence shardclock.timer_key_seq owned by shardclock.timers.timer_key;

create index timers_by_slot on shardclock.timers (slot, due_date);
create unique index timers_by_name on shardclock.timers (tenant_id, name) where name is not null;

comment on table shardclock.timers is 'Pending timers only; what has ended is in shardclock.command_log.';
comment on column shardclock.timers.slot is 'timer_key % 840; shard i of N keeps the slots with slot % N = i.';
comment on column shardclock.timers.repetitions is 'How often the schedule fires in all; -1 is without end; 1 for a plain timer.';
comment on column shardclock.timers.occurrence is 'Which occurrence of its schedule this timer is, from 1.';
comment on column shardclock.timers.anchor is 'Occurrence k of a schedule is due at anchor + k periods.';
comment on column shardclock.timers.claimed_by is 'The holder (one incarnation of a shard actor) that leases this row until claimed_until.';
