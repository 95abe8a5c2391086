-- Removes an endpoint. Deliveries to it that are on the way become dead letters.
--
-- in:    :tenant_id text, :name text
-- out:   removed boolean: one row, or none if there is no such endpoint
-- locks: the endpoint's row
-- index: endpoints_pkey
delete from shardclock.endpoints e
where e.tenant_id = :tenant_id and e.name = :name
returning true as removed
