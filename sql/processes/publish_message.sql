-- Publishes a message.
--
-- in:    :name text, :correlation text, :variables jsonb, :tenant_id text, :time_to_live interval
-- out:   instance_key bigint, of each instance that gets it now
-- locks: the message's name and key, until the end; the subscriptions that it takes
-- index: subscriptions_by_name
select m.instance_key
from shardclock.publish_message(
    :name::text, :correlation::text, :variables::jsonb, :tenant_id::text, :time_to_live::interval
) as m (instance_key)
