-- Who runs what: the holders of shards, and the coordinator that leads.

create table shardclock.holders (
    holder bigint not null,
    cluster_id text not null,
    actor_name text not null,
    node_id text not null,
    host text not null,
    pid integer not null,
    shard integer,
    shard_count integer,
    held integer not null default 0,
    started_at timestamptz not null default now(),
    seen_at timestamptz not null default now(),
    ended_at timestamptz,
    ended_why text,

    constraint holders_pkey primary key (holder),
    constraint assignment_is_whole check ((shard is null) = (shard_count is null)),
    constraint shard_is_one_of_shard_count check (shard_count between 1 and 840 and shard >= 0 and shard < shard_count),
    constraint end_is_whole check ((ended_at is null) = (ended_why is null))
);

create index holders_ended on shardclock.holders (ended_at) where ended_at is not null;

comment on table shardclock.holders is 'One row for each incarnation of a shard actor. Claims of an ended holder are free at once.';

create table shardclock.coordination (
    singleton boolean not null default true,
    shards_wanted integer not null default 2,
    term bigint not null default 0,
    leader bigint,
    cluster_id text,
    lease_until timestamptz,

    constraint coordination_pkey primary key (singleton),
    constraint coordination_is_one_row check (singleton),
    constraint shards_wanted_is_1_to_840 check (shards_wanted between 1 and 840)
);

insert into shardclock.coordination default values;

comment on table shardclock.coordination is 'One row: how many shards are wanted, and which coordinator leads in which term.';
