-- Sets limits for a tenant.
--
-- in:    :tenant_id text
--        :given text[]: the limits to set, by their columns' names; other limits don't change
--        :timers_max bigint or null (no limit)
--        :payload_bytes_max bigint or null, :waiters_max bigint or null, :endpoints_max bigint or null, :rate_per_s
--          double precision or null
--        :instances_max bigint or null (the default)
--        :tasks_max bigint or null, :messages_max bigint or null, :definitions_max bigint or null
--        :schedules_max bigint or null (the default)
-- out:   tenant_id text, timers_max bigint or null, payload_bytes_max bigint or null, waiters_max bigint or null,
--          endpoints_max bigint or null, rate_per_s double precision or null, instances_max bigint or null, tasks_max
--          bigint or null, messages_max bigint or null, definitions_max bigint or null, schedules_max bigint or null,
--          changed_at timestamptz
--        one row
-- locks: the tenant's row, and the row of its starts in tenant_usage
-- index: tenants_pkey, tenant_usage_pkey
-- include: included/count_starts_again.sql
insert into shardclock.tenants as t (
    tenant_id, timers_max, payload_bytes_max, waiters_max, endpoints_max, rate_per_s,
    instances_max, tasks_max, messages_max, definitions_max, schedules_max
)
values (
    :tenant_id, :timers_max::bigint, :payload_bytes_max::bigint, :waiters_max::bigint, :endpoints_max::bigint,
    :rate_per_s::double precision, :instances_max::bigint, :tasks_max::bigint, :messages_max::bigint,
    :definitions_max::bigint, :schedules_max::bigint
)
on conflict (tenant_id) do update
set timers_max = case when 'timers_max' = any (:given::text[]) then excluded.timers_max else t.timers_max end,
    payload_bytes_max = case
        when 'payload_bytes_max' = any (:given) then excluded.payload_bytes_max else t.payload_bytes_max
    end,
    waiters_max = case when 'waiters_max' = any (:given) then excluded.waiters_max else t.waiters_max end,
    endpoints_max = case when 'endpoints_max' = any (:given) then excluded.endpoints_max else t.endpoints_max end,
    rate_per_s = case when 'rate_per_s' = any (:given) then excluded.rate_per_s else t.rate_per_s end,
    instances_max = case when 'instances_max' = any (:given) then excluded.instances_max else t.instances_max end,
    tasks_max = case when 'tasks_max' = any (:given) then excluded.tasks_max else t.tasks_max end,
    messages_max = case when 'messages_max' = any (:given) then excluded.messages_max else t.messages_max end,
    definitions_max = case when 'definitions_max' = any (:given) then excluded.definitions_max else t.definitions_max end,
    schedules_max = case when 'schedules_max' = any (:given) then excluded.schedules_max else t.schedules_max end,
    changed_at = now()
returning
    t.tenant_id, t.timers_max, t.payload_bytes_max, t.waiters_max, t.endpoints_max, t.rate_per_s,
    t.instances_max, t.tasks_max, t.messages_max, t.definitions_max, t.schedules_max, t.changed_at
