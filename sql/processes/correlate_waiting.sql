-- Gives tokens that have come to wait the messages that were published before them.
--
-- in:    :instance_keys bigint[]
-- out:   given integer, how many messages; 1000 at most, 0: there are no more
-- locks: the names and keys of kept messages for which one of these instances waits, and the subscriptions and messages
--        that it joins, until the end
-- index: subscriptions_by_instance, messages_by_name
select shardclock.correlate_waiting(:instance_keys::bigint[]) as given
