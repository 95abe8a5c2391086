-- Finds the answers to requests.
--
-- A transaction that reads must lock the slots of today and yesterday alone. A lock on the third, held until the
-- caller's transaction ends, would keep `forget_requests` away. Only a plan that is made for the values at hand leaves
-- a partition out before it locks it: a cached plan locks all three.
--
-- in:    tenants text[], keys text[], moment timestamptz
-- out:   number bigint, fingerprint bytea, status smallint, body jsonb; number is the place in the arrays, from 1; a
--        request without an answer has no row
-- locks: nothing; the slot that is neither today's nor yesterday's is not even opened
-- index: idempotent_requests_pkey of these two slots, one probe in each for each request
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
        offset 0 -- or the planner, before the first ANALYZE, reads all of the two days by their age
    ) r
    where r.created_at > moment - interval '24 hours'
    -- A clock that was set back may have left two: the newer one comes last.
    order by r.created_at;
end
$$;
