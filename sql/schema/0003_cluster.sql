-- The wanted number of slot keepers for each role, the holders, the leading coordinator, and the installation that owns
-- the database.
--
-- needs: keep_hold, note_event

create table shardclock.scale (
    role text not null,
    wanted integer not null default 2,
    wanted_min integer,
    wanted_max integer,
    target_per_s integer not null default 5000,
    set_at timestamptz,

    constraint scale_pkey primary key (role),
    constraint wanted_is_1_to_840 check (wanted between 1 and 840),
    constraint policy_is_whole check ((wanted_min is null) = (wanted_max is null)),
    constraint policy_is_1_to_840 check (wanted_min between 1 and 840 and wanted_max between wanted_min and 840),
    constraint target_per_s_is_positive check (target_per_s > 0)
);

-- Each role has two keepers by default, so that one keeper can take over the slots of the other keeper.
insert into shardclock.scale (role) values ('shard'), ('worker'), ('engine');

comment on table shardclock.scale is
    'One row for each role of slot keepers: the number of keepers that an operator or a policy wants. The keepers of a role divide all slots among them.';
comment on column shardclock.scale.wanted_min is
    'With wanted_max: the leading coordinator follows the forecast between the two numbers; null: an operator sets wanted.';
comment on column shardclock.scale.set_at is
    'The time at which an operator set wanted; null: wanted is the default, or a policy has set it.';
comment on column shardclock.scale.target_per_s is
    'The number of timers that one keeper is expected to process in a second.';

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
    targets text[] not null default '{}',
    functions text[] not null default '{}',

    constraint holders_pkey primary key (holder),
    constraint holders_role_fkey foreign key (role) references shardclock.scale (role),
    constraint assignment_is_whole check ((part is null) = (part_count is null)),
    constraint part_is_one_of_part_count check (part_count between 1 and 840 and part >= 0 and part < part_count),
    constraint end_is_whole check ((ended_at is null) = (ended_why is null))
);

create index holders_ended on shardclock.holders (ended_at) where ended_at is not null;

create index holders_suspended on shardclock.holders (suspended_at) where suspended_at is not null and ended_at is null;

-- With each heartbeat, a shard reads the workers of its machine by this index.
create index holders_workers on shardclock.holders (host) where role = 'worker' and ended_at is null;

comment on table shardclock.holders is
    'One row for each incarnation of a slot keeper. After a holder has ended, other holders may take its claims immediately.';
comment on column shardclock.holders.part is
    'The holder has the slots with slot % part_count = part; null: the holder has no slots.';
comment on column shardclock.holders.identity is
    'The installation for which the holder''s cluster is configured; '''': no installation; null: the holder is never on hold.';
comment on column shardclock.holders.suspended_at is
    'The time at which the coordinator suspended the silent holder, so that other holders may take its claims; null again after its next heartbeat.';
comment on column shardclock.holders.targets is
    'The targets of the handlers that the worker''s app has; empty: no app, or no worker.';
comment on column shardclock.holders.functions is
    'The functions of the jobs that the worker''s app has; empty: no app, or no worker.';
comment on column shardclock.holders.seen_at is 'The last heartbeat before the end; null: the holder has not ended.';

-- Values that change several times a second are in separate tables, not in the rows that claims read. Statements read
-- these tables newest first, so they never read the old versions that vacuum can't remove because of an old snapshot.
-- For the same reason there is no unique index on the holder: a search in a unique index would read all versions
-- (docs/decisions/0023-fired-rows-that-stay.md).
create table shardclock.beats (
    holder bigint not null,
    seen_at timestamptz not null default now(),
    held integer not null default 0,

    constraint beats_pkey primary key (holder, seen_at)
);

comment on table shardclock.beats is 'One row for each holder: its last heartbeat.';
comment on column shardclock.beats.held is 'The number of timers in the holder''s memory at that time.';

create view shardclock.presence as
select
    h.holder, h.role, h.cluster_id, h.actor_name, h.node_id, h.host, h.pid, h.part, h.part_count, b.held, h.started_at,
    b.seen_at, h.suspended_at, h.identity, h.targets,
    h.functions,
    -- The default of SHARDCLOCK_SILENT_S: docs/decisions/0017-suspect-quickly-kill-slowly.md.
    b.seen_at > now() - interval '5 s' as alive
from shardclock.holders h
cross join lateral (
    select b.seen_at, b.held from shardclock.beats b where b.holder = h.holder order by b.seen_at desc limit 1
) b
where h.ended_at is null;

comment on view shardclock.presence is 'The holders that have not ended, each with its last heartbeat.';
comment on column shardclock.presence.alive is
    'Whether the holder had a heartbeat within 5 s. Metrics, scaling policies, and changes of the database''s owner use this value.';

create table shardclock.coordination (
    singleton boolean not null default true,
    ramp_per_s integer default 150000,

    constraint coordination_pkey primary key (singleton),
    constraint coordination_is_one_row check (singleton),
    constraint ramp_per_s_is_not_negative check (ramp_per_s >= 0)
);

insert into shardclock.coordination default values;

comment on table shardclock.coordination is 'One row: an operator''s settings for the whole cluster.';
comment on column shardclock.coordination.ramp_per_s is
    'The limit of overdue timers that the cluster fires each second after an outage, divided between tenants; null: no limit.';

-- Like heartbeats, renewals of the leader's lease leave old row versions. The index finds the newest version first, so
-- that no statement reads the other versions.
create table shardclock.leadership (
    renewed_at timestamptz not null default clock_timestamp(),
    term bigint not null default 0,
    leader bigint,
    cluster_id text,
    node_id text,
    lease_until timestamptz,

    constraint leadership_pkey primary key (renewed_at)
);

insert into shardclock.leadership default values;

comment on table shardclock.leadership is
    'One row: the leading coordinator, its term, and the end of its lease, which it renews.';
comment on column shardclock.leadership.node_id is
    'The node of the leader. During a handover, only a coordinator of this node can become the leader.';

-- No timer fires in a copy of a database until an operator releases the copy.
create table shardclock.identity (
    singleton boolean not null default true,
    name text,
    origin text,
    adopted_at timestamptz,
    -- An operator may put a database on hold; a copy of a database is on hold automatically. During a hold no timer
    -- fires.
    held_why text,
    -- Ended holds of operators are kept, so that `explain` can give the reason of a late firing.
    holds jsonb not null default '[]',

    constraint identity_pkey primary key (singleton),
    constraint identity_is_one_row check (singleton),
    constraint name_is_1_to_63_characters check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'),
    constraint held_why_is_one_to_200_characters check (held_why ~ '^[^[:cntrl:]]{1,200}$')
);

insert into shardclock.identity default values;

comment on table shardclock.identity is
    'One row: the installation that owns this database, and the origin of the database when this installation became its owner.';
comment on column shardclock.identity.name is
    'The installation in the configuration of its clusters (SHARDCLOCK_IDENTITY); null: no name.';
comment on column shardclock.identity.origin is
    'shardclock.origin() when a cluster first ran on this database, or when an operator released the database; null: no cluster has run.';
comment on column shardclock.identity.held_why is
    'The reason of an operator''s hold; null: no hold is in force.';
comment on column shardclock.identity.holds is
    'The last 50 holds of operators, oldest first: why, began_at and ended_at (missing while the hold is in force).';

create trigger keep_hold before update on shardclock.identity for each row
when (new.held_why is distinct from old.held_why) execute function shardclock.keep_hold();

-- These triggers write events for operators: 0010_notify.sql.
create trigger note_hold after update of held_why on shardclock.identity for each row
when (new.held_why is distinct from old.held_why) execute function shardclock.note_event();

create trigger note_takeover after update of ended_at on shardclock.holders for each row
when (old.ended_at is null and new.ended_why = 'dead') execute function shardclock.note_event();
