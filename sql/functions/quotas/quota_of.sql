-- Returns a tenant's quota of a resource.
--
-- `t` is null if the tenant has no row in shardclock.tenants. Postgres inlines this body into its callers' plans.
--
-- in:    t shardclock.tenants, resource text
-- out:   bigint
-- locks: nothing
-- index: none
create or replace function shardclock.quota_of(t shardclock.tenants, resource text)
returns bigint
language sql
immutable
begin atomic
    -- The largest bigint stands for "no limit".
    select nullif(case resource
        when 'timers' then t.timers_max
        when 'instances' then coalesce(t.instances_max, 1000000)
        when 'starts' then coalesce(t.instances_max, 1000000)
        when 'tasks' then coalesce(t.tasks_max, 1000000)
        when 'messages' then coalesce(t.messages_max, 100000)
        when 'definitions' then coalesce(t.definitions_max, 10000)
    end, 9223372036854775807);
end;

comment on function shardclock.quota_of is 'Internal: Returns a tenant''s quota of a resource; null: no limit.';
