-- For a small quota, rows are counted up to the quota. A large quota is compared with the last count. An engine counts
-- instances, tasks and timers. Clients add the other resources also while no engine runs, so a client counts them, too.
--
-- in:    tenant_id text, resource text
-- out:   room bigint, counted_at timestamptz
-- locks: the tenant's row of tenant_usage, if it counts; leaves it out if another transaction has locked it
-- index: tenants_pkey, tenant_usage_pkey; as used_of
create or replace function shardclock.room_of(
    tenant_id text, resource text, out room bigint, out counted_at timestamptz
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    exact_max constant bigint := 1000;
    most constant bigint := shardclock.quota_of(tenant_id, resource);
    -- At other levels a row that another transaction has changed would make the caller's transaction fail.
    may_write constant boolean := current_setting('transaction_isolation') = 'read committed';
    counted bigint;
    age interval;
begin
    if most is null then
        return;
    end if;
    if most <= exact_max and not (resource = 'timers' and tenant_id = 'default') then
        room := greatest(0, most - shardclock.used_of(tenant_id, resource, most + 1));
        return;
    end if;
    select u.used, u.counted_at into counted, counted_at
    from shardclock.tenant_usage u
    where u.tenant_id = room_of.tenant_id and u.resource = room_of.resource;
    if not found then
        counted_at := '1970-01-01 00:00:00+00';
        -- Without the lock, the insert would wait until another transaction with the same row has ended.
        if may_write and pg_try_advisory_xact_lock(hashtextextended(tenant_id || ' ' || resource, 51)) then
            insert into shardclock.tenant_usage (tenant_id, resource) values (tenant_id, resource)
            on conflict do nothing;
        end if;
    end if;
    -- A count of 100,000 rows takes about 20 ms: so clients spend 2 % of the time on counts.
    age := (clock_timestamp() - counted_at) / greatest(1, coalesce(counted, 0) / 100000.0);
    if resource in ('starts', 'messages', 'definitions') and age > interval '1 second' then
        perform
        from shardclock.tenant_usage u
        where may_write and u.tenant_id = room_of.tenant_id and u.resource = room_of.resource
        for update skip locked;
        if found then
            update shardclock.tenant_usage u
            set used = shardclock.used_of(tenant_id, resource, most), counted_at = clock_timestamp()
            where u.tenant_id = room_of.tenant_id and u.resource = room_of.resource
            returning u.used, u.counted_at into counted, counted_at;
        elsif age > interval '5 seconds' then
            -- An open transaction may hold the row for hours. This transaction counts for itself.
            counted := shardclock.used_of(tenant_id, resource, most);
            counted_at := clock_timestamp();
        end if;
    end if;
    room := greatest(0, most - coalesce(counted, 0));
end
$$;

comment on function shardclock.room_of is 'Internal: Says how much more a tenant may have, null: no limit; and when that was counted, null: now.';
