-- Removes an endpoint and its stored attempts. The endpoint's open deliveries become dead letters.
--
-- in:    :tenant_id text, :name text
-- out:   removed boolean: one row; no row if the endpoint does not exist
-- locks: the endpoint's row, the attempts' rows
-- index: endpoints_pkey, endpoint_attempts_pkey
with forgotten as (
    delete from shardclock.endpoint_attempts a where a.tenant_id = :tenant_id and a.name = :name
)
delete from shardclock.endpoints e
where e.tenant_id = :tenant_id and e.name = :name
returning true as removed
