-- Refuses new instances, definitions (with their start timers) or stored messages that exceed a tenant's quota.
--
-- A gateway checks the quota of clients' timers itself (gateway/limits/timer_quotas.py).
--
-- in:    tenant_id text, resource text, more bigint
-- out:   nothing
-- locks: as remaining_quota
-- index: as remaining_quota
create or replace function shardclock.check_process_quota(tenant_id text, resource text, more bigint default 1)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    -- A start that waits for an engine counts as an instance.
    counted constant record := shardclock.remaining_quota(
        tenant_id, case when resource = 'instances' then array[resource, 'starts'] else array[resource] end
    );
begin
    if counted.remaining is null or more <= counted.remaining then
        return;
    end if;
    raise exception 'tenant % has a quota of % %, and % more would exceed it: %, or ask the operator of the cluster for a '
        'higher quota (shardclock tenants set)',
        quote_literal(left(tenant_id, 60)), counted.quota,
        case resource
            when 'timers' then 'pending timers'
            when 'instances' then 'instances that have not ended'
            when 'messages' then 'kept messages'
            when 'definitions' then 'versions of processes'
        end,
        more,
        case resource
            when 'timers' then 'cancel some, or wait until some have fired'
            when 'instances' then 'cancel some, or wait until some have ended'
            when 'messages' then 'keep messages for a shorter time'
            when 'definitions' then 'delete old versions'
        end
        using errcode = 'SC429', constraint = 'quota_' || resource;
end
$$;

comment on function shardclock.check_process_quota is 'Internal: Refuses rows that exceed a tenant''s quota.';
