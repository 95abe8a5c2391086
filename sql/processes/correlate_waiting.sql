-- Gives tokens that have come to wait the messages that were published before them.
--
-- in:    :instance_keys bigint[]
-- out:   given integer, how many messages; 1000 at most, 0: there are no more
-- locks: until the end, the names and keys of the kept messages, the messages, and the subscriptions that get them
-- index: subscriptions_by_instance, messages_by_name
select shardclock.correlate_waiting(:instance_keys::bigint[]) as given
