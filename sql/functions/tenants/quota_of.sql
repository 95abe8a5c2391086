-- The body is parsed once, when the function is made, and the plans of its callers inline it. Without a row of its own
-- a tenant is null.
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
    -- The largest bigint is a limit that was set to none.
    select nullif(case resource
        when 'timers' then t.timers_max
        when 'instances' then coalesce(t.instances_max, 1000000)
        when 'starts' then coalesce(t.instances_max, 1000000)
        when 'tasks' then coalesce(t.tasks_max, 1000000)
        when 'messages' then coalesce(t.messages_max, 100000)
        when 'definitions' then coalesce(t.definitions_max, 10000)
    end, 9223372036854775807);
end;

comment on function shardclock.quota_of is 'Internal: Says how much a tenant may have; null: no limit.';
