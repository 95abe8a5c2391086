-- Counts a tenant's schedules, and the rows that processes keep for the tenant.
--
-- in:    :tenant_id text, :most bigint: so many of each are counted at most
-- out:   instances bigint, tasks bigint, messages bigint, definitions bigint, schedules bigint
-- locks: nothing
-- index: schedules_by_tenant, definitions_by_process, instances_running, deliveries_of_starts, tasks_by_tenant, messages_by_name: at most :most rows of each
select
    least(
        shardclock.used_of(:tenant_id::text, 'instances', :most::bigint) + shardclock.used_of(:tenant_id, 'starts', :most), :most
    ) as instances,
    shardclock.used_of(:tenant_id, 'tasks', :most) as tasks,
    shardclock.used_of(:tenant_id, 'messages', :most) as messages,
    shardclock.used_of(:tenant_id, 'definitions', :most) as definitions,
    shardclock.used_of(:tenant_id, 'schedules', :most) as schedules
