-- Returns the key of a process's newest version, or of a given version.
--
-- in:    tenant_id text, process_id text, version integer
-- out:   bigint
-- locks: nothing
-- index: definitions_by_process
create or replace function shardclock.find_definition(tenant_id text, process_id text, version integer default null)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    select d.definition_key into key
    from shardclock.definitions d
    where d.tenant_id = find_definition.tenant_id
        and d.process_id = find_definition.process_id
        and d.deleted_at is null
        and (find_definition.version is null or d.version = find_definition.version)
    order by d.version desc
    limit 1;
    return key;
end
$$;

comment on function shardclock.find_definition is
    'Internal: Finds the newest version of a process, or a given version.';
