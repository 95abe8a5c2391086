-- Gives tokens that have come to wait the messages that were published before them.
--
-- in:    :instance_keys bigint[]
-- out:   given integer, how many messages
-- locks: the names and keys of the messages, the subscriptions and messages that it joins, until the end
-- index: subscriptions_by_instance, messages_by_name
select shardclock.correlate_waiting(:instance_keys::bigint[]) as given
