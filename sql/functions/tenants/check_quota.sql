-- in:    tenant_id text, resource text, more bigint
-- out:   nothing
-- locks: as room_of
-- index: as room_of
create or replace function shardclock.check_quota(tenant_id text, resource text, more bigint default 1)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- A start that waits for an engine is one instance, too.
    counted constant record := shardclock.room_of(
        tenant_id, case when resource = 'instances' then array[resource, 'starts'] else array[resource] end
    );
begin
    if counted.room is null or more <= counted.room then
        return;
    end if;
    raise exception 'tenant "%" may have % %, and has no room for % more: %, or ask the operator of the cluster for more (shardclock tenants set %)',
        left(tenant_id, 60), counted.quota, case resource
            when 'timers' then 'pending timers'
            when 'instances' then 'instances that have not ended'
            when 'messages' then 'kept messages'
            when 'definitions' then 'versions of processes'
            else resource
        end, more, case resource
            when 'timers' then 'cancel some'
            when 'instances' then 'cancel some, or wait until some have ended'
            when 'messages' then 'keep messages for a shorter time'
            when 'definitions' then 'delete old versions'
            else 'end some'
        end, left(tenant_id, 60)
        using errcode = 'SC429', constraint = resource;
end
$$;

comment on function shardclock.check_quota is 'Internal: Refuses what a tenant has no room for.';
