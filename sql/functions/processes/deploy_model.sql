-- Stores the processes of a validated BPMN model, and makes their start events active.
--
-- `processes` is an array of {process_id, name, starts, starts_by_hand}.
--
-- in:    tenant_id text, resource text, digest bytea, model bytea, processes jsonb
-- out:   definition_key bigint, process_id text, version integer, is_new boolean
-- locks: each process's deployments, until the transaction ends
-- index: definitions_by_process
create or replace function shardclock.deploy_model(
    tenant_id text, resource text, digest bytea, model bytea, processes jsonb
)
returns table (definition_key bigint, process_id text, version integer, is_new boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    one jsonb;
    latest shardclock.definitions;
begin
    -- Lock in a fixed order, so that two deployments of the same processes don't deadlock.
    for one in select s.one from jsonb_array_elements(processes) as s (one) order by s.one ->> 'process_id' loop
        perform pg_advisory_xact_lock(hashtextextended(deploy_model.tenant_id || ' ' || (one ->> 'process_id'), 18));
        select d.* into latest
        from shardclock.definitions d
        where d.definition_key = shardclock.find_definition(deploy_model.tenant_id, one ->> 'process_id');
        process_id := one ->> 'process_id';
        is_new := latest.digest is distinct from deploy_model.digest or latest.resource <> deploy_model.resource;
        if not is_new then
            definition_key := latest.definition_key;
            version := latest.version;
            return next;
            continue;
        end if;
        select coalesce(max(d.version), 0) + 1 into version
        from shardclock.definitions d
        where d.tenant_id = deploy_model.tenant_id and d.process_id = one ->> 'process_id';
        definition_key := nextval('shardclock.timer_key_seq');
        insert into shardclock.definitions (
            definition_key, tenant_id, process_id, version, name, resource, digest, model, starts,
            starts_by_hand
        )
        values (
            deploy_model.definition_key, deploy_model.tenant_id, deploy_model.process_id, deploy_model.version,
            one ->> 'name', deploy_model.resource, deploy_model.digest, deploy_model.model, one -> 'starts',
            coalesce((one ->> 'starts_by_hand')::boolean, true)
        );
        if latest.definition_key is not null then
            perform shardclock.close_starts(latest.definition_key);
        end if;
        perform shardclock.open_starts(definition_key);
        return next;
    end loop;
end
$$;

comment on function shardclock.deploy_model is 'Internal: Deploys a validated model.';
