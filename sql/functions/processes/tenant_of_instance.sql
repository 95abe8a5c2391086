-- Returns the tenant of a running instance.
--
-- An instance exists as soon as its start is stored, before an engine begins it. The delivery of a thrown signal does
-- not count as an instance.
--
-- in:    instance_key bigint, tenant_id text
-- out:   text: null if there is no running instance with this key
-- locks: nothing
-- index: instances_pkey, deliveries_pkey
create or replace function shardclock.tenant_of_instance(instance_key bigint, tenant_id text)
returns text
language sql
stable
begin atomic
    select s.tenant_id
    from (
        select i.tenant_id
        from shardclock.instances i
        where i.instance_key = tenant_of_instance.instance_key and i.ended_at is null
        union all
        select d.tenant_id
        from shardclock.deliveries d
        where d.timer_key = tenant_of_instance.instance_key
            and d.target = 'process:instance' and d.process_instance_key is null
            and d.payload ->> 'kind' is distinct from 'thrown'
    ) s
    where tenant_of_instance.tenant_id is null or s.tenant_id = tenant_of_instance.tenant_id
    limit 1;
end;

comment on function shardclock.tenant_of_instance is 'Internal: Returns the tenant of a running instance.';
