-- Makes an installation the owner of a database without an owner.
--
-- Each shard, worker and engine calls this function when it registers as a holder. A database without a name gets the
-- name `identity`, but only if all running holders have this identity. Otherwise, a cluster that connects by mistake
-- could take the database from a running cluster.
--
-- in:    identity text
-- out:   nothing
-- locks: the identity row while its name or its origin is missing
-- index: identity_pkey
create or replace function shardclock.adopt(identity text)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    here text := shardclock.origin();
    has_name boolean;
    has_origin boolean;
begin
    select i.name is not null, i.origin is not null into has_name, has_origin
    from shardclock.identity i
    where i.singleton;
    if has_origin and (has_name or adopt.identity = '') then
        return;
    end if;
    -- The lock serializes the calls, so that the statements below see all holders that were registered earlier.
    perform from shardclock.identity i where i.singleton for update;
    update shardclock.identity i
    set origin = here, adopted_at = now()
    where i.singleton and i.origin is null;
    update shardclock.identity i
    set name = adopt.identity, adopted_at = now()
    where i.singleton and i.name is null and i.origin = here and adopt.identity <> ''
        and not exists (
            select from shardclock.presence h
            where h.alive and coalesce(h.identity, '') <> adopt.identity
        );
end
$$;

comment on function shardclock.adopt is
    'Internal: Makes an installation the owner of this database, if the database has no other owner.';
