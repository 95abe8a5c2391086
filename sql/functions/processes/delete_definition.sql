-- Deletes one version of a process; the previous version becomes the newest.
--
-- in:    definition_key bigint, tenant_id text
-- out:   text
-- locks: the process's deployments, until the transaction ends
-- index: definitions_pkey, definitions_by_process
create or replace function shardclock.delete_definition(definition_key bigint, tenant_id text default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    d shardclock.definitions;
    latest bigint;
begin
    select f.* into d
    from shardclock.definitions f
    where f.definition_key = delete_definition.definition_key
        and (delete_definition.tenant_id is null or f.tenant_id = delete_definition.tenant_id);
    if not found then
        return 'NOT_FOUND';
    end if;
    perform pg_advisory_xact_lock(hashtextextended(d.tenant_id || ' ' || d.process_id, 18));
    latest := shardclock.find_definition(d.tenant_id, d.process_id);
    update shardclock.definitions f
    set deleted_at = now()
    where f.definition_key = d.definition_key and f.deleted_at is null;
    if not found then
        return 'NOT_FOUND';
    end if;
    if latest = d.definition_key then
        perform shardclock.close_starts(latest);
        latest := shardclock.find_definition(d.tenant_id, d.process_id);
        if latest is not null then
            perform shardclock.open_starts(latest, again => true);
        end if;
    end if;
    return 'DELETED';
end
$$;

comment on function shardclock.delete_definition is $$Deletes one version of a process. Its instances continue, and no new instance of this version begins. If the deleted version was the newest, the start events of the previous version are active again.

definition_key: the key of the version
tenant_id: refuse a definition of another tenant; null: any tenant
returns: DELETED, or NOT_FOUND
errors: none
example: select shardclock.delete_definition(7);
$$;
