-- Throws a signal.
--
-- in:    :name text, :variables jsonb, :tenant_id text
-- out:   instance_key bigint, of each instance that gets it now
-- locks: the signals that it sends
-- index: subscriptions_in_order
select s.instance_key
from shardclock.throw_signal(:name::text, :variables::jsonb, :tenant_id::text) as s (instance_key)
