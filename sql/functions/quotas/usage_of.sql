-- Counts a tenant's usage of a resource, up to the limit `most`.
--
-- in:    tenant_id text, resource text, most bigint
-- out:   bigint
-- locks: nothing
-- index: the index of the resource: schedules_by_tenant, timers_by_tenant, definitions_by_process, instances_running,
--        deliveries_of_starts, tasks_by_tenant or messages_by_name: at most `most` rows
create or replace function shardclock.usage_of(tenant_id text, resource text, most bigint)
returns bigint
language plpgsql
stable
security definer
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    throws bigint := 0;
begin
    if resource = 'starts' then
        throws := (
            select count(*)
            from shardclock.deliveries d
            where d.tenant_id = usage_of.tenant_id
                and (d.target = 'process:instance' and d.payload ->> 'kind' = 'thrown') is true
        );
    end if;
    return case resource
        when 'timers' then (
            select count(*)
            from (
                select from shardclock.timers t
                where t.tenant_id = usage_of.tenant_id and (usage_of.tenant_id = 'default' or t.tenant_id <> 'default')
                limit most
            ) t
        )
        when 'schedules' then (
            select count(*)
            from (
                select from shardclock.timers t
                where t.tenant_id = usage_of.tenant_id and t.schedule is not null
                limit most
            ) t
        )
        when 'instances' then (
            select count(*)
            from (
                select
                from shardclock.definitions d
                cross join lateral (
                    select from shardclock.instances i
                    where i.definition_key = d.definition_key and (i.ended_at is null) is true
                    limit most
                ) i
                where d.tenant_id = usage_of.tenant_id
                limit most
            ) i
        )
        when 'starts' then (
            select count(*)
            from (
                select from shardclock.deliveries d
                where d.tenant_id = usage_of.tenant_id
                    and (d.target = 'process:instance' and d.process_instance_key is null) is true
                limit most + throws
            ) d
        ) - throws
        when 'tasks' then (
            select count(*)
            from (
                select from shardclock.tasks t
                where t.tenant_id = usage_of.tenant_id and t.completed_at is null
                limit most
            ) t
        )
        when 'messages' then (
            select count(*)
            from (
                select from shardclock.messages m
                where m.tenant_id = usage_of.tenant_id and m.expires_at > now()
                limit most
            ) m
        )
        when 'definitions' then (
            select count(*)
            from (
                select from shardclock.definitions d
                where d.tenant_id = usage_of.tenant_id and d.deleted_at is null
                limit most
            ) d
        )
    end;
end
$$;

comment on function shardclock.usage_of is 'Internal: Counts a tenant''s usage of a resource, up to a limit.';
