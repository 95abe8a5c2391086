-- Consumer groups of the command log: their places in it, and the records that they have set aside.

create table shardclock.consumers (
    group_name text not null,
    partition smallint not null default 0,
    partitions smallint not null default 1,
    position bigint not null default 0,
    worked_at timestamptz,
    lease bigint,
    leased_by text,
    leased_until timestamptz,
    leased_for interval,
    leased_records integer not null default 0,
    attempts integer not null default 0,
    failures bigint not null default 0,
    error text,
    failed_at timestamptz,
    not_before timestamptz,

    constraint consumers_pkey primary key (group_name, partition),
    constraint group_name_is_1_to_200_characters check (length(group_name) between 1 and 200),
    -- The role of a group's members writes to this table itself. Its texts must be safe to show in a terminal, and its
    -- numbers small enough for a list of all groups to add them up.
    constraint group_name_has_no_control_characters check (group_name !~ '[[:cntrl:]]'),
    constraint position_is_not_negative check (position >= 0),
    constraint attempts_are_not_negative check (attempts >= 0),
    constraint failures_can_be_added_up check (failures between 0 and 1000000000000000),
    constraint worked_at_is_finite check (isfinite(worked_at)),
    constraint partition_is_one_of_1_to_840
        check (partitions between 1 and 840 and partition between 0 and partitions - 1)
)
-- A row changes with each batch; the free half of its page keeps these updates on the page.
with (fillfactor = 50);

comment on table shardclock.consumers is
    'How far each consumer group has read the command log, one row for each of its partitions.';
comment on column shardclock.consumers.partition is
    'The partition has the records of timers whose timer_key % 840 % partitions is this number.';
comment on column shardclock.consumers.position is
    'The partition''s place: all its records up to this position are done, or set aside.';
comment on column shardclock.consumers.worked_at is 'When records were last done; null: none yet.';
comment on column shardclock.consumers.lease is
    'The number of the newest lease, drawn at random; its member gives the number with each write.';
comment on column shardclock.consumers.leased_records is 'How many records the newest lease is on at most.';
comment on column shardclock.consumers.leased_for is
    'The length of a lease; if one ends later than that, Postgres''s clock was ahead when it was written.';
comment on column shardclock.consumers.attempts is 'How often work on the next record alone has failed.';
comment on column shardclock.consumers.failures is 'How often work has failed since the group began.';
comment on column shardclock.consumers.error is 'Why work failed last.';
comment on column shardclock.consumers.not_before is 'Work that failed is tried again from this moment on.';

create table shardclock.records_aside (
    group_name text not null,
    position bigint not null,
    set_aside_at timestamptz not null default clock_timestamp(),
    attempts integer not null,
    error text,
    record jsonb not null,

    constraint records_aside_pkey primary key (group_name, position)
);

comment on table shardclock.records_aside is
    'Records that a consumer group gave up after some attempts and passed over: copies of the whole records.';
