-- Gives waiting tokens the messages that were published earlier and stored.
--
-- The function reads the stored messages of a token in one query, instead of one query for each message.
--
-- in:    instance_keys bigint[]
-- out:   integer: the number of messages, at most 1000; 0: no message is left
-- locks: until the transaction ends, the names and keys of the stored messages, the messages, and the subscriptions
--        that get them
-- index: subscriptions_by_instance, messages_by_name
create or replace function shardclock.correlate_waiting(instance_keys bigint[])
returns integer
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    given_max constant integer := 1000; -- the limit of messages and locks in one call; the caller repeats the call
    waiting record;
    found_message shardclock.messages;
    given integer := 0;
begin
    for waiting in
        select s.*
        from shardclock.subscriptions s
        cross join lateral (
            select
            from shardclock.messages m
            where m.tenant_id = s.tenant_id and m.name = s.name and m.correlation = s.correlation
                and m.expires_at > now() and s.process_id <> all (m.correlated)
                and octet_length(m.variables::text) <= 1048576
            limit 1
        ) m
        where s.instance_key = any (instance_keys) and s.kind = 'message' and s.taken_by is null
        order by s.tenant_id, s.name, s.correlation, s.opened_at
    loop
        -- If another transaction is publishing a message with this name and correlation key, skip this token; the
        -- caller searches again soon.
        continue when not pg_try_advisory_xact_lock(
            hashtextextended(waiting.tenant_id || ' ' || waiting.name || ' ' || waiting.correlation, 19)
        );
        -- This is a separate statement, so that it sees all rows that were committed before the lock.
        for found_message in
            select m.*
            from shardclock.messages m
            where m.tenant_id = waiting.tenant_id and m.name = waiting.name and m.correlation = waiting.correlation
                and m.expires_at > now() and waiting.process_id <> all (m.correlated)
                -- A message that was kept before variables had a size limit may be too large for a signal. Without this
                -- check the call would fail for all instances.
                and octet_length(m.variables::text) <= 1048576
            order by m.message_key + 0
            limit case when waiting.is_once then 1 else given_max - given end
        loop
            update shardclock.subscriptions s
            set taken_by = case when s.is_once then found_message.message_key end
            where s.subscription_key = waiting.subscription_key and s.taken_by is null;
            exit when not found;
            update shardclock.messages m
            set correlated = m.correlated || waiting.process_id
            where m.message_key = found_message.message_key;
            perform shardclock.send_signal(
                waiting.instance_key, waiting.tenant_id,
                jsonb_build_object(
                    'kind', 'happened', 'variables', found_message.variables, 'message', found_message.message_key
                ),
                waiting.token, waiting.node_id
            );
            given := given + 1;
        end loop;
        exit when given >= given_max;
    end loop;
    return given;
end
$$;

comment on function shardclock.correlate_waiting is
    'Internal: Correlates waiting tokens with stored messages.';
