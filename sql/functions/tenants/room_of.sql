-- For a small quota, rows are counted up to the quota. A large quota is compared with the last counts. An engine counts
-- instances, tasks and timers. Clients add the other resources also while no engine runs, so a client counts them, too.
-- Together the resources have the quota of the first. Each query reads one table, because each start of a process runs
-- them: a join takes longer than a second query.
--
-- in:    tenant_id text, resources text[]
-- out:   quota bigint, room bigint, counted_at timestamptz
-- locks: the tenant's rows of tenant_usage, if it counts; leaves out a row that another transaction has locked
-- index: tenants_pkey, tenant_usage_pkey; as used_of
create or replace function shardclock.room_of(
    tenant_id text, resources text[], out quota bigint, out room bigint, out counted_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    exact_max constant bigint := 1000;
    of_clients constant text[] := array['starts', 'messages', 'definitions'];
    -- At other levels a row that another transaction has changed would make the caller's transaction fail.
    may_write constant boolean := current_setting('transaction_isolation') = 'read committed';
    resource text;
    used bigint;
    used_at timestamptz;
    age interval;
begin
    select shardclock.quota_of(t, resources[1]) into quota
    from shardclock.tenants t
    where t.tenant_id = room_of.tenant_id;
    if not found then
        quota := shardclock.quota_of(null::shardclock.tenants, resources[1]);
    end if;
    if quota is null then
        return;
    end if;
    room := quota;
    if quota <= exact_max and not (resources[1] = 'timers' and tenant_id = 'default') then
        foreach resource in array resources loop
            room := greatest(0, room - shardclock.used_of(tenant_id, resource, room + 1));
        end loop;
        return;
    end if;
    foreach resource in array resources loop
        select u.used, u.counted_at into used, used_at
        from shardclock.tenant_usage u
        where u.tenant_id = room_of.tenant_id and u.resource = resource;
        if not found then
            used_at := '1970-01-01 00:00:00+00';
            -- A client's transaction may be open for hours, and no engine counts a row of it: so the row of an engine's
            -- resource is inserted by an engine, which asks for one at a time. Without the lock, the insert would wait
            -- until another transaction with the same row has ended.
            if may_write and (resource = any (of_clients) or cardinality(resources) = 1)
                and pg_try_advisory_xact_lock(hashtextextended(tenant_id || ' ' || resource, 51))
            then
                insert into shardclock.tenant_usage (tenant_id, resource) values (tenant_id, resource)
                on conflict do nothing;
            end if;
        end if;
        if resource = any (of_clients) then
            -- A count of 100,000 rows takes about 20 ms: so clients spend 2 % of the time on counts.
            age := (clock_timestamp() - used_at) / greatest(1, coalesce(used, 0) / 100000.0);
            if age > interval '1 second' then
                perform
                from shardclock.tenant_usage u
                where may_write and u.tenant_id = room_of.tenant_id and u.resource = resource
                for update skip locked;
                if found then
                    update shardclock.tenant_usage u
                    set used = shardclock.used_of(tenant_id, resource, quota), counted_at = clock_timestamp()
                    where u.tenant_id = room_of.tenant_id and u.resource = resource
                    returning u.used, u.counted_at into used, used_at;
                elsif age > interval '5 seconds' then
                    -- An open transaction may hold the row for hours. This transaction counts for itself.
                    used := shardclock.used_of(tenant_id, resource, quota);
                    used_at := clock_timestamp();
                end if;
            end if;
        end if;
        room := greatest(0, room - coalesce(used, 0));
        counted_at := least(counted_at, used_at);
    end loop;
end
$$;

comment on function shardclock.room_of is 'Internal: Says how much more a tenant may have, null: no limit; and when that was counted, null: now.';
