-- Stores the last attempts of endpoints, and deletes old attempts beyond the limit; never waits for a lock.
--
-- in:    arrays with a value for each attempt:
--        :tenant_ids text[]
--        :names text[]: the endpoints' names
--        :timer_keys bigint[], :attempts integer[]
--        :ages interval[]: the time since each attempt's end
--        :statuses integer[]: null: no response
--        :durations_ms integer[]
--        :failures text[]: null: the endpoint accepted the delivery
--        :bodies text[]
--        :kept_max integer: the number of attempts, and of test sends, to keep for each endpoint
-- out:   nothing: no rows
-- locks: the new rows, and the deleted rows; skips rows that other transactions have locked
-- index: endpoints_pkey; endpoint_attempts_pkey, the rows of each endpoint
with attempt as materialized (
    select a.*
    from unnest(
        :tenant_ids::text[], :names::text[], :timer_keys::bigint[], :attempts::integer[], :ages::interval[],
        :statuses::integer[], :durations_ms::integer[], :failures::text[], :bodies::text[]
    ) as a (tenant_id, name, timer_key, attempt, age, status, duration_ms, failure, body)
),
kept as (
    insert into shardclock.endpoint_attempts (
        tenant_id, name, timer_key, attempt, ended_at, status, duration_ms, failure, body
    )
    select
        a.tenant_id, a.name, a.timer_key, a.attempt, clock_timestamp() - a.age, a.status, a.duration_ms, a.failure,
        a.body
    from attempt a
    -- The table has no foreign key, because the check of a foreign key would wait while an operator has locked the
    -- endpoint.
    where exists (select from shardclock.endpoints e where e.tenant_id = a.tenant_id and e.name = a.name)
    on conflict do nothing
),
surplus as materialized (
    select s.tenant_id, s.name, s.ended_at, s.timer_key
    from (select distinct a.tenant_id, a.name, a.timer_key = 0 as is_test from attempt a) e
    cross join lateral (
        select o.*
        from shardclock.endpoint_attempts o
        where o.tenant_id = e.tenant_id and o.name = e.name and (o.timer_key = 0) = e.is_test
        order by o.ended_at desc, o.timer_key desc
        offset :kept_max::integer
    ) s
),
unlocked as materialized (
    select o.tenant_id, o.name, o.ended_at, o.timer_key
    from surplus s
    cross join lateral (
        select o.*
        from shardclock.endpoint_attempts o
        where o.tenant_id = s.tenant_id and o.name = s.name and o.ended_at = s.ended_at and o.timer_key = s.timer_key
        for update skip locked
    ) o
)
delete from shardclock.endpoint_attempts o
using unlocked u
where o.tenant_id = u.tenant_id and o.name = u.name and o.ended_at = u.ended_at and o.timer_key = u.timer_key
