-- Removes the subscription of an endpoint, and the events that wait for this subscription; does not remove the
-- endpoint.
--
-- in:    :tenant_id text, :endpoint text
-- out:   removed boolean: one row; no row if the endpoint has no subscription
-- locks: the subscription's row, and its throttles
-- index: event_subscriptions_pkey, event_throttles_pkey
delete from shardclock.event_subscriptions s
where s.tenant_id = :tenant_id and s.endpoint = :endpoint
returning true as removed
