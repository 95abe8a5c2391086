-- Finds the last attempts of an endpoint, the newest first.
--
-- in:    :tenant_id text, :name text, :limit bigint
-- out:   timer_key bigint, attempt integer, ended_at timestamptz, status integer, duration_ms integer, failure text,
--        body text
-- locks: nothing
-- index: endpoint_attempts_pkey, endpoints_pkey
select nullif(a.timer_key, 0) as timer_key, nullif(a.attempt, 0) as attempt, a.ended_at, a.status, a.duration_ms, a.failure, a.body
from shardclock.endpoint_attempts a
where a.tenant_id = :tenant_id
    and a.name = :name
    -- A worker may have stored an attempt of a removed endpoint with the same name.
    and a.ended_at >= (select e.added_at from shardclock.endpoints e where e.tenant_id = :tenant_id and e.name = :name)
order by a.ended_at desc, a.timer_key desc
limit :limit
