-- The kept messages of a wait are read once, and not again for each message that is given.
--
-- in:    instance_keys bigint[]
-- out:   integer: how many messages; 1000 at most, 0: there are no more
-- locks: until the transaction ends, the names and keys of the kept messages, the messages, and the subscriptions that
--        get them
-- index: subscriptions_by_instance, messages_by_name
create or replace function shardclock.correlate_waiting(instance_keys bigint[])
returns integer
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    given_max constant integer := 1000; -- by one call, and as many locks: who calls calls again
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
        -- Whoever publishes this message now may not commit for long: it is looked for again a little later.
        continue when not pg_try_advisory_xact_lock(
            hashtextextended(waiting.tenant_id || ' ' || waiting.name || ' ' || waiting.correlation, 19)
        );
        -- A statement of its own, so that it sees what was committed before we had the lock.
        for found_message in
            select m.*
            from shardclock.messages m
            where m.tenant_id = waiting.tenant_id and m.name = waiting.name and m.correlation = waiting.correlation
                and m.expires_at > now() and waiting.process_id <> all (m.correlated)
                -- One that no signal can carry, of before variables had a limit: here it would fail for all.
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
    'Internal: Gives tokens that have come to wait the messages that were published before.';
