-- Finds the stored responses of idempotent requests.
--
-- Reads only the partitions of today and yesterday. A lock on the third partition would block `forget_requests` until
-- the caller's transaction ends. The statement is planned at each call, because a cached plan would lock all three
-- partitions.
--
-- in:    tenants text[], keys text[], moment timestamptz
-- out:   number bigint, fingerprint bytea, status smallint, body jsonb; number is the index in the arrays, from 1; a
--        request without a stored response has no row
-- locks: nothing; it opens only the two partitions of today and yesterday
-- index: idempotent_requests_pkey of these two partitions, one probe of each for each request
create or replace function shardclock.find_requests(tenants text[], keys text[], moment timestamptz)
returns table (number bigint, fingerprint bytea, status smallint, body jsonb)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
    today constant smallint := shardclock.request_slot(moment);
    yesterday constant smallint := shardclock.request_slot(moment - interval '24 hours');
begin
    return query
    select w.number, r.fingerprint, r.status, r.body
    from unnest(tenants, keys) with ordinality as w (tenant_id, idempotency_key, number)
    cross join lateral (
        select i.created_at, i.fingerprint, i.status, i.body
        from shardclock.idempotent_requests i
        where i.slot in (today, yesterday) and i.tenant_id = w.tenant_id and i.idempotency_key = w.idempotency_key
        offset 0 -- without this line, a plan from before the first ANALYZE reads all rows of both days
    ) r
    where r.created_at > moment - interval '24 hours'
    -- After the clock was set back, a request may have two rows; the newer row comes last.
    order by r.created_at;
end
$$;
