-- Returns whether a tenant had quota for another instance at its last count.
--
-- The function reads only the row of the last count, in a quarter of the time of a new count. The count is valid for
-- one second, or for 10 ms per 1,000 waiting starts if that is longer. If the count is older, the function returns
-- false, and the caller counts again with remaining_quota.
--
-- in:    tenant_id text
-- out:   boolean: true if the last count is still valid, and the tenant had quota for another instance at that time
-- locks: nothing
-- index: tenant_usage_pkey
create or replace function shardclock.has_quota_for_start(tenant_id text)
returns boolean
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        select
        from shardclock.tenant_usage u
        where u.tenant_id = has_quota_for_start.tenant_id
            and u.resource = 'starts'
            and u.had_quota
            and (clock_timestamp() - u.counted_at) / greatest(1, u.used / 100000.0) <= interval '1 second'
    );
end
$$;

comment on function shardclock.has_quota_for_start is
    'Internal: Returns whether a tenant had quota for another instance at a recent count.';
