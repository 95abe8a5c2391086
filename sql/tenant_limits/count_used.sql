-- Counts a tenant's schedules, and the rows that processes keep for the tenant.
--
-- in:    :tenant_id text, :most bigint: the limit of each count
-- out:   instances bigint, tasks bigint, messages bigint, definitions bigint, schedules bigint
-- locks: nothing
-- index: schedules_by_tenant, definitions_by_process, instances_running, deliveries_of_starts, tasks_by_tenant,
--        messages_by_name: at most :most rows of each
select
    least(
        shardclock.usage_of(:tenant_id::text, 'instances', :most::bigint) + shardclock.usage_of(:tenant_id, 'starts', :most), :most
    ) as instances,
    shardclock.usage_of(:tenant_id, 'tasks', :most) as tasks,
    shardclock.usage_of(:tenant_id, 'messages', :most) as messages,
    shardclock.usage_of(:tenant_id, 'definitions', :most) as definitions,
    shardclock.usage_of(:tenant_id, 'schedules', :most) as schedules
