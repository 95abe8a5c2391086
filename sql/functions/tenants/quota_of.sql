-- in:    tenant_id text, resource text
-- out:   bigint
-- locks: nothing
-- index: tenants_pkey
create or replace function shardclock.quota_of(tenant_id text, resource text)
returns bigint
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    -- The largest bigint is a limit that was set to none.
    select nullif(case resource
        when 'timers' then t.timers_max
        when 'instances' then coalesce(t.instances_max, 1000000)
        when 'starts' then coalesce(t.instances_max, 1000000)
        when 'tasks' then coalesce(t.tasks_max, 1000000)
        when 'messages' then coalesce(t.messages_max, 100000)
        when 'definitions' then coalesce(t.definitions_max, 10000)
    end, 9223372036854775807)
    from (select quota_of.tenant_id) asked
    left join shardclock.tenants t on t.tenant_id = asked.tenant_id
$$;

comment on function shardclock.quota_of is 'Internal: Says how much a tenant may have; null: no limit.';
