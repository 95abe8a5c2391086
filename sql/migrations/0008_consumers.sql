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

-- A new group begins at the start of the log. Calls that come at the same time wait for each other: else each would
-- insert the group's rows.
create function shardclock.open_group(group_name text, partitions integer)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    found_partitions integer;
begin
    select c.partitions into found_partitions
    from shardclock.consumers c
    where c.group_name = open_group.group_name and c.partition = 0;
    if found then
        return found_partitions;
    end if;
    perform pg_advisory_xact_lock(hashtextextended('shardclock.consumers ' || group_name, 0));
    insert into shardclock.consumers (group_name, partition, partitions)
    select group_name, p, coalesce(partitions, 1)
    from generate_series(0, coalesce(partitions, 1) - 1) p
    where not exists (select from shardclock.consumers c where c.group_name = open_group.group_name);
    return (
        select c.partitions from shardclock.consumers c where c.group_name = open_group.group_name and c.partition = 0
    );
end
$$;

-- Moves a group to another place, with as many partitions as before or with another number. Without a place the group
-- keeps its own, if all its partitions have read equally far: only then is each record still done once.
create function shardclock.reset_group(group_name text, place bigint, partitions integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    last_place bigint;
    last_drawn bigint;
    wanted integer;
    behind record;
begin
    perform pg_advisory_xact_lock(hashtextextended('shardclock.consumers ' || group_name, 0));
    perform from shardclock.consumers c where c.group_name = reset_group.group_name order by c.partition for update;
    select max(c.position), coalesce(partitions, max(c.partitions)) into last_place, wanted
    from shardclock.consumers c
    where c.group_name = reset_group.group_name;
    if last_place is null then
        return null;
    end if;
    -- The last drawn position too, not only the horizon: the place may be an earlier horizon, and a writer that has
    -- taken its mark since may have lowered it.
    last_drawn := greatest(shardclock.log_horizon(), pg_sequence_last_value('shardclock.position_seq'));
    if place > last_drawn then
        raise exception 'position % is beyond the end of the log, %: '
            'the group would pass over all that comes until then', place, last_drawn
            using errcode = 'invalid_parameter_value';
    end if;
    if place is null then
        select c.partition, l.position into behind
        from shardclock.consumers c
        cross join lateral (
            select l.position
            from shardclock.command_log l
            where l.position > c.position
                and l.position <= last_place
                and l.timer_key % 840 % c.partitions = c.partition
            order by l.position
            limit 1
        ) l
        where c.group_name = reset_group.group_name
        order by l.position
        limit 1;
        if found then
            raise exception 'partition % of group "%" has yet to do record %, and others are at %: '
                'stop the members when the group has read to the end, and try again',
                behind.partition, left(group_name, 60), behind.position, last_place
                using errcode = 'object_not_in_prerequisite_state';
        end if;
    end if;
    delete from shardclock.consumers c where c.group_name = reset_group.group_name;
    insert into shardclock.consumers (group_name, partition, partitions, position)
    select group_name, p, wanted, coalesce(place, last_place)
    from generate_series(0, wanted - 1) p;
    return coalesce(place, last_place);
end
$$;
