-- Finds the subscriptions of endpoints to events, by tenant and endpoint.
--
-- in:    :tenant_id text or null: only subscriptions of this tenant
--        :endpoint text or null: only the subscription of this endpoint
--        :limit bigint
-- out:   tenant_id text, endpoint text, url text, kinds text[], failures_min integer, text_only boolean, changed_at
--          timestamptz
--        disabled_at timestamptz or null and disabled_why text or null: the state of the endpoint
--        last_sent_at timestamptz or null: the time of the last delivery, if it was within the last five minutes
--        waiting bigint: events that wait for the end of the five minutes
-- locks: nothing
-- index: event_subscriptions_pkey; endpoints_pkey; event_throttles_pkey, the rows of each subscription
select
    s.tenant_id, s.endpoint, e.url, s.kinds, s.failures_min, s.text_only, s.changed_at, e.disabled_at, e.disabled_why,
    h.last_sent_at, h.waiting
from shardclock.event_subscriptions s
join shardclock.endpoints e on e.tenant_id = s.tenant_id and e.name = s.endpoint
cross join lateral (
    select max(h.sent_at) as last_sent_at, coalesce(sum(h.waiting), 0)::bigint as waiting
    from shardclock.event_throttles h
    where h.tenant_id = s.tenant_id and h.endpoint = s.endpoint
) h
where (:tenant_id::text is null or s.tenant_id = :tenant_id) and (:endpoint::text is null or s.endpoint = :endpoint)
order by s.tenant_id, s.endpoint
limit :limit::bigint
