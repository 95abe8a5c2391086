-- 0052_shares_of_tenants

-- A worker finds the endpoints to which something has become due without a probe for each endpoint that there is.
create index deliveries_of_endpoints on shardclock.deliveries (next_attempt_at, timer_key) where target like 'webhook:%';
