-- Returns an identifier that shows whether this database is a copy.
--
-- A restored dump, a clone and a logical replica have other identifiers than their source. A base backup or a volume
-- snapshot has the same identifier as its source; only the installation's name can distinguish them.
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
