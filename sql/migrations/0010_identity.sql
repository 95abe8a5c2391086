-- Whose database this is: a copy of it fires nothing until an operator releases it.

create table shardclock.identity (
    singleton boolean not null default true,
    name text,
    origin text,
    adopted_at timestamptz,

    constraint identity_pkey primary key (singleton),
    constraint identity_is_one_row check (singleton),
    constraint name_is_1_to_63_characters check (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$')
);

insert into shardclock.identity default values;

comment on table shardclock.identity is 'One row: which installation this database belongs to, and which database it was then.';
comment on column shardclock.identity.name is 'The installation, as its clusters are configured (SHARDCLOCK_IDENTITY); null: it has no name.';
comment on column shardclock.identity.origin is 'shardclock.origin() when a cluster first ran on it, or when it was released; null: none has run yet.';

alter table shardclock.holders add column identity text;

comment on column shardclock.holders.identity is
    'The installation that its cluster is configured for, '''' for none; null: of a release that knows no hold.';

-- A dump restored elsewhere, a clone of the database, a replica by logical replication: each has another. A base backup
-- and a snapshot of a volume have the same, which is what names are for.
create function shardclock.origin()
returns text
language plpgsql
stable
as $$
begin
    return (
        select s.system_identifier || '/' || d.oid
        from pg_control_system() s
        cross join pg_database d
        where d.datname = current_database()
    );
end
$$;

-- Every claim asks this. In plpgsql, which keeps its plans: 9 µs, where SQL takes 23 on Postgres 16.
create function shardclock.held_why(identity text)
returns text
language plpgsql
stable
as $$
declare
    name text;
    origin text;
    here text;
begin
    select i.name, i.origin into name, origin from shardclock.identity i where i.singleton;
    if origin is null or held_why.identity is null then
        return null;
    end if;
    here := shardclock.origin();
    if origin <> here then
        return format('the database is a copy, or was moved: it ran as %s and is %s now', origin, here);
    end if;
    -- One without a name holds nobody: or whoever names a cluster would stop it.
    if name <> held_why.identity then
        return format(
            'the database belongs to %s, and the cluster %s', name,
            case held_why.identity when '' then 'has no SHARDCLOCK_IDENTITY' else 'is ' || held_why.identity end
        );
    end if;
    return null;
end
$$;

-- What nobody has run on yet belongs to whoever comes first. What has no name gets one when all who fire on it bear that
-- one: a cluster that is pointed here by mistake must not take it from those who are at work.
create function shardclock.adopt(identity text)
returns void
language plpgsql
as $$
declare
    here text := shardclock.origin();
    has_name boolean;
    has_origin boolean;
begin
    select i.name is not null, i.origin is not null into has_name, has_origin from shardclock.identity i where i.singleton;
    if has_origin and (has_name or adopt.identity = '') then
        return;
    end if;
    -- One after the other: what follows sees those who have registered before us.
    perform from shardclock.identity i where i.singleton for update;
    update shardclock.identity i
    set origin = here, adopted_at = now()
    where i.singleton and i.origin is null;
    update shardclock.identity i
    set name = adopt.identity, adopted_at = now()
    where i.singleton and i.name is null and i.origin = here and adopt.identity <> ''
        and not exists (
            select from shardclock.holders h
            where h.ended_at is null
                and h.seen_at > now() - interval '5 s'
                and coalesce(h.identity, '') <> adopt.identity
        );
end
$$;

-- A dump restored to a younger server carries transaction ids that are yet to come there.
create function shardclock.log_is_ahead()
returns boolean
language sql
stable
as $$
    select coalesce(
        greatest(
            (select l.xid from shardclock.command_log l order by l.xid desc limit 1),
            (select c.xid from shardclock.consumers c order by c.xid desc limit 1)
        ) >= pg_snapshot_xmax(pg_current_snapshot()),
        false
    )
$$;

comment on function shardclock.origin is 'Names this database among all: its server''s system identifier, and its own oid.';
comment on function shardclock.held_why is 'Says why a cluster that is configured for an installation may not fire here; null: it may.';
comment on function shardclock.adopt is 'Takes this database for an installation, if it is nobody''s yet.';
comment on function shardclock.log_is_ahead is 'Says whether the log holds transaction ids that this server has yet to give: its order needs mending.';

-- Whoever may read or write holders runs shards: a role with grants of its own goes on doing so.
do $$
declare
    role record;
begin
    for role in
        select distinct
            case a.grantee when 0 then 'public' else quote_ident(pg_get_userbyid(a.grantee)) end as name, a.privilege_type
        from pg_class c
        cross join aclexplode(c.relacl) a
        where c.oid = 'shardclock.holders'::regclass and a.privilege_type in ('SELECT', 'UPDATE')
    loop
        execute format('grant %s on shardclock.identity to %s', role.privilege_type, role.name);
    end loop;
end
$$;
