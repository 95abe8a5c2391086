-- A restored dump, a clone of the database and a replica by logical replication have other origins than their source. A
-- base backup and a snapshot of a volume have the same origin as their source. Only the name of the installation
-- distinguishes them from their source.
--
-- in:    nothing
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.origin()
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
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

comment on function shardclock.origin is
    'Internal: Returns an identifier of this database: its server''s system identifier, and its own oid.';
