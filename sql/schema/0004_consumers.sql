-- Consumer groups of the command log: the groups' positions in the log, and the records set aside for the groups.

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
    -- Members of a group write to this table without a function that could check the values. So the constraints refuse
    -- texts that are unsafe in a terminal, and numbers that would make the sum over all groups overflow.
    constraint group_name_has_no_control_characters check (group_name !~ '[[:cntrl:]]'),
    constraint position_is_not_negative check (position >= 0),
    constraint attempts_are_not_negative check (attempts >= 0),
    constraint failures_can_be_added_up check (failures between 0 and 1000000000000000),
    constraint worked_at_is_finite check (isfinite(worked_at)),
    constraint partition_is_one_of_1_to_840
        check (partitions between 1 and 840 and partition between 0 and partitions - 1)
)
-- Each batch updates a row. Half of each page is free space, so that new versions of a row fit on the same page.
with (fillfactor = 50);

comment on table shardclock.consumers is
    'The position of each consumer group in the command log, one row for each of its partitions.';
comment on column shardclock.consumers.partition is
    'The partition has the records of timers for which timer_key % 840 % partitions is this number.';
comment on column shardclock.consumers.position is
    'All records of the partition up to this position are processed or set aside.';
comment on column shardclock.consumers.worked_at is 'The time at which records were last processed; null: never.';
comment on column shardclock.consumers.lease is
    'The number of the newest lease, drawn at random; the member with this lease gives the number with each write.';
comment on column shardclock.consumers.leased_records is 'The limit of records of the newest lease.';
comment on column shardclock.consumers.leased_for is
    'The duration of a lease. If a lease ends later than this from now, Postgres''s clock was ahead when the lease was written.';
comment on column shardclock.consumers.attempts is 'The number of failures of the next record in a batch with only this record.';
comment on column shardclock.consumers.failures is 'The number of failures since the group began.';
comment on column shardclock.consumers.error is 'The reason of the last failure.';
comment on column shardclock.consumers.not_before is 'The earliest time of the next attempt after a failure.';

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
    'Copies of whole records that a consumer group passed over after several failed attempts.';
