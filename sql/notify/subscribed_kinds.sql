-- Finds the kinds of events to which endpoints of a tenant subscribe.
--
-- in:    :tenant_id text
-- out:   kind text
-- locks: nothing
-- index: event_subscriptions_pkey
select distinct k.kind
from shardclock.event_subscriptions s
cross join lateral unnest(s.kinds) as k (kind)
where s.tenant_id = :tenant_id
