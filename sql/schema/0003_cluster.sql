-- How many slot keepers of each role are wanted, the holders, the coordinator that leads, and the installation that owns
-- the database.
--
-- needs: keep_hold

create table shardclock.scale (
    role text not null,
    wanted integer not null default 2,
    wanted_min integer,
    wanted_max integer,
    target_per_s integer not null default 5000,

    constraint scale_pkey primary key (role),
    constraint wanted_is_1_to_840 check (wanted between 1 and 840),
    constraint policy_is_whole check ((wanted_min is null) = (wanted_max is null)),
    constraint policy_is_1_to_840 check (wanted_min between 1 and 840 and wanted_max between wanted_min and 840),
    constraint target_per_s_is_positive check (target_per_s > 0)
);

-- Two keepers of each role: if one dies, the other goes on, and takes over its slots.
insert into shardclock.scale (role) values ('shard'), ('worker'), ('engine');

comment on table shardclock.scale is
    'One row for each role of slot keepers: how many keepers an operator or a policy wants. '
        'The keepers of a role share all slots among them.';
comment on column shardclock.scale.wanted_min is
    'With wanted_max: the leading coordinator follows the forecast between the two; null: an operator sets wanted.';
comment on column shardclock.scale.target_per_s is 'How many timers a second one keeper is expected to work off.';

create table shardclock.holders (
    holder bigint not null,
    role text not null default 'shard',
    cluster_id text not null,
    actor_name text not null,
    node_id text not null,
    host text not null,
    pid integer not null,
    part integer,
    part_count integer,
    started_at timestamptz not null default now(),
    seen_at timestamptz,
    ended_at timestamptz,
    ended_why text,
    identity text,
    suspended_at timestamptz,

    constraint holders_pkey primary key (holder),
    constraint holders_role_fkey foreign key (role) references shardclock.scale (role),
    constraint assignment_is_whole check ((part is null) = (part_count is null)),
    constraint part_is_one_of_part_count check (part_count between 1 and 840 and part >= 0 and part < part_count),
    constraint end_is_whole check ((ended_at is null) = (ended_why is null))
);

create index holders_ended on shardclock.holders (ended_at) where ended_at is not null;

create index holders_suspended on shardclock.holders (suspended_at) where suspended_at is not null and ended_at is null;

comment on table shardclock.holders is
    'One row for each incarnation of a slot keeper. When a holder has ended, others may take its claims at once.';
comment on column shardclock.holders.part is
    'Which part of the slots it keeps: those with slot % part_count = part; null: none.';
comment on column shardclock.holders.identity is
    'The installation that its cluster is configured for, '''' for none; null: it is never on hold.';
comment on column shardclock.holders.suspended_at is
    'When its coordinator suspended it, because it was silent: others may take its claims; '
        'null again when it is heard.';
comment on column shardclock.holders.seen_at is 'Its last heartbeat before it ended; null while it lives.';

-- Values that change several times a second are kept apart from the rows that claims read, and are read newest first:
-- so no statement reads the old versions that an old snapshot keeps from vacuum. Therefore there is no unique index on the
-- holder: a search in it would read all versions (docs/decisions/0026-what-beats-leave-behind.md).
create table shardclock.beats (
    holder bigint not null,
    seen_at timestamptz not null default now(),
    held integer not null default 0,

    constraint beats_pkey primary key (holder, seen_at)
);

comment on table shardclock.beats is 'One row for each holder: its last heartbeat.';
comment on column shardclock.beats.held is 'How many timers it had in memory then.';

create view shardclock.presence as
select
    h.holder, h.role, h.cluster_id, h.actor_name, h.node_id, h.host, h.pid, h.part, h.part_count, b.held, h.started_at,
    b.seen_at, h.suspended_at, h.identity,
    -- The default of SHARDCLOCK_SILENT_S: docs/decisions/0017-suspect-quickly-kill-slowly.md.
    b.seen_at > now() - interval '5 s' as alive
from shardclock.holders h
cross join lateral (
    select b.seen_at, b.held from shardclock.beats b where b.holder = h.holder order by b.seen_at desc limit 1
) b
where h.ended_at is null;

comment on view shardclock.presence is 'The holders that have not ended, each with its last heartbeat.';
comment on column shardclock.presence.alive is
    'It gave a sign of life within 5 s. Metrics, policies, releases and adoptions count by this.';

create table shardclock.coordination (
    singleton boolean not null default true,
    ramp_per_s integer default 150000,

    constraint coordination_pkey primary key (singleton),
    constraint coordination_is_one_row check (singleton),
    constraint ramp_per_s_is_not_negative check (ramp_per_s >= 0)
);

insert into shardclock.coordination default values;

comment on table shardclock.coordination is 'One row: what an operator has set for the whole cluster.';
comment on column shardclock.coordination.ramp_per_s is
    'How many timers left overdue by an outage the cluster fires in a second, fair between tenants; null: no limit.';

-- Like beats, renewals leave old row versions behind. The newest is found first, so that no statement reads them.
create table shardclock.leadership (
    renewed_at timestamptz not null default clock_timestamp(),
    term bigint not null default 0,
    leader bigint,
    cluster_id text,
    lease_until timestamptz,

    constraint leadership_pkey primary key (renewed_at)
);

insert into shardclock.leadership default values;

comment on table shardclock.leadership is
    'One row: which coordinator leads, in which term, and when its lease ends unless it is renewed.';

-- A copy of a database fires nothing until an operator releases it.
create table shardclock.identity (
    singleton boolean not null default true,
    name text,
    origin text,
    adopted_at timestamptz,
    -- An operator may put a database on hold, as a copy is by itself: nothing fires until it is released.
    held_why text,
    -- Holds of operators are kept after their end, so that `explain` gives the reason of a late firing.
    holds jsonb not null default '[]',

    constraint identity_pkey primary key (singleton),
    constraint identity_is_one_row check (singleton),
    constraint name_is_1_to_63_characters check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
    constraint held_why_is_one_to_200_characters check (held_why ~ '^[^[:cntrl:]]{1,200}$')
);

insert into shardclock.identity default values;

comment on table shardclock.identity is
    'One row: which installation this database belongs to, and which database it was at that time.';
comment on column shardclock.identity.name is
    'The installation, as its clusters are configured (SHARDCLOCK_IDENTITY); null: it has no name.';
comment on column shardclock.identity.origin is
    'shardclock.origin() when a cluster first ran on this database, or when it was released; null: none has run yet.';
comment on column shardclock.identity.held_why is
    'Why an operator has put the database on hold; null: none has.';
comment on column shardclock.identity.holds is
    'The last 50 holds of operators, the oldest first: why, began_at, and ended_at unless it goes on.';

create trigger keep_hold before update on shardclock.identity for each row
when (new.held_why is distinct from old.held_why) execute function shardclock.keep_hold();
