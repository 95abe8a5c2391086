-- Returns a tenant's remaining quota; all resources of a call share the quota of the first resource.
--
-- For a small quota the function counts the rows; for a large quota it reads the last stored count. Engines store the
-- counts of instances, tasks and timers. Clients store the counts of waiting starts, definitions and messages, which
-- also change while no engine runs. Each query reads one table, because a join takes longer than a second query.
--
-- in:    tenant_id text, resources text[]
-- out:   quota bigint, remaining bigint, counted_at timestamptz
-- locks: the tenant's rows of tenant_usage, if the call counts; skips a row that another transaction has locked
-- index: tenants_pkey, tenant_usage_pkey; also the indexes of usage_of
create or replace function shardclock.remaining_quota(
    tenant_id text, resources text[], out quota bigint, out remaining bigint, out counted_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    exact_max constant bigint := 1000;
    of_clients constant text[] := array['starts', 'messages', 'definitions'];
    -- Lock the row only at isolation level read committed. At other levels, the caller's transaction would fail if
    -- another transaction has changed the row.
    may_write constant boolean := current_setting('transaction_isolation') = 'read committed';
    resource text;
    used bigint;
    recount bigint;
    used_at timestamptz;
    age interval;
begin
    select shardclock.quota_of(t, resources[1]) into quota
    from shardclock.tenants t
    where t.tenant_id = remaining_quota.tenant_id;
    if not found then
        quota := shardclock.quota_of(null::shardclock.tenants, resources[1]);
    end if;
    if quota is null then
        return;
    end if;
    remaining := quota;
    if quota <= exact_max and not (resources[1] = 'timers' and tenant_id = 'default') then
        foreach resource in array resources loop
            remaining := greatest(0, remaining - shardclock.usage_of(tenant_id, resource, remaining + 1));
        end loop;
        return;
    end if;
    foreach resource in array resources loop
        select u.used, u.counted_at into used, used_at
        from shardclock.tenant_usage u
        where u.tenant_id = remaining_quota.tenant_id and u.resource = resource;
        if not found then
            used_at := '1970-01-01 00:00:00+00';
            -- A client's transaction may be open for hours. If this transaction inserted a row of an engine's resource,
            -- engines could not store their counts during this time. So only engines insert these rows; an engine's
            -- call has only one resource. Without the lock, the insert could wait for another transaction that inserts
            -- the same row.
            if may_write and (resource = any (of_clients) or cardinality(resources) = 1)
                and pg_try_advisory_xact_lock(hashtextextended(tenant_id || ' ' || resource, 51))
            then
                insert into shardclock.tenant_usage (tenant_id, resource) values (tenant_id, resource)
                on conflict do nothing;
            end if;
        end if;
        if resource = any (of_clients) then
            -- A count of 100,000 rows takes about 20 ms, so a count each second takes 2 % of a client's time.
            age := (clock_timestamp() - used_at) / greatest(1, coalesce(used, 0) / 100000.0);
            if age > interval '1 second' then
                perform
                from shardclock.tenant_usage u
                where may_write and u.tenant_id = remaining_quota.tenant_id and u.resource = resource
                for update skip locked;
                if found then
                    recount := shardclock.usage_of(tenant_id, resource, quota);
                    update shardclock.tenant_usage u
                    set used = recount, counted_at = clock_timestamp(), had_quota = resource = 'starts' and remaining > recount
                    where u.tenant_id = remaining_quota.tenant_id and u.resource = resource
                    returning u.used, u.counted_at into used, used_at;
                elsif age > interval '5 seconds' then
                    -- If the row is locked, count without storing the count, because the transaction with the lock may
                    -- be open for hours.
                    used := shardclock.usage_of(tenant_id, resource, quota);
                    used_at := clock_timestamp();
                end if;
            end if;
        end if;
        remaining := greatest(0, remaining - coalesce(used, 0));
        counted_at := least(counted_at, used_at);
    end loop;
end
$$;

comment on function shardclock.remaining_quota is
    'Internal: Returns the remaining quota of a tenant (null: no limit), and the time of the count (null: now).';
