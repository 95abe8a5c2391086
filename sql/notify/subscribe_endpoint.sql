-- Subscribes an endpoint to kinds of events; replaces an earlier subscription of the endpoint.
--
-- in:    :tenant_id text, :endpoint text, :kinds text[], :failures_min integer, :text_only boolean
-- out:   changed boolean: one row; no row if the endpoint has this subscription already
-- locks: the subscription's row; the endpoint's row, shared, so that it can't be removed before the commit
-- index: event_subscriptions_pkey; endpoints_pkey
insert into shardclock.event_subscriptions as s (tenant_id, endpoint, kinds, failures_min, text_only)
values (:tenant_id, :endpoint, :kinds, :failures_min, :text_only)
on conflict (tenant_id, endpoint) do update
set kinds = excluded.kinds, failures_min = excluded.failures_min, text_only = excluded.text_only, changed_at = now()
where (s.kinds, s.failures_min, s.text_only)
    is distinct from (excluded.kinds, excluded.failures_min, excluded.text_only)
returning true as changed
