-- Messages of one name and key are given in the order in which they were published. Before, a newer one could overtake one
-- that was kept: if it was published after a token had come to wait, and before an engine had looked for kept messages.
create or replace function shardclock.publish_message(
    name text,
    correlation text default '',
    variables jsonb default '{}',
    tenant_id text default 'default',
    time_to_live interval default '0'
)
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    message bigint := nextval('shardclock.timer_key_seq');
    got record;
    reached text[] := '{}';
    had_newest text[];
    waiting bigint[];
    signal jsonb := jsonb_build_object('kind', 'happened', 'variables', variables) || case
        when time_to_live > interval '0' then jsonb_build_object('message', message)
        else '{}'
    end;
begin
    perform shardclock.check_variables(variables);
    if time_to_live > interval '366 days' then
        raise exception 'time_to_live % is not possible: a message is kept for at most 366 days', time_to_live
            using errcode = 'invalid_parameter_value';
    end if;
    perform shardclock.lock_message(tenant_id, name, correlation);
    -- Tokens that wait get kept messages first: an engine may not have looked for these yet. Messages are given in their
    -- order: a process that has had the newest has had all.
    select m.correlated into had_newest
    from shardclock.messages m
    where m.tenant_id = publish_message.tenant_id and m.name = publish_message.name
        and m.correlation = publish_message.correlation and m.expires_at > now()
    order by m.message_key + 0 desc
    limit 1;
    while found and shardclock.correlate_waiting(array(
        select w.instance_key
        from shardclock.subscriptions w
        where w.kind = 'message' and w.tenant_id = publish_message.tenant_id
            and w.name = publish_message.name and w.correlation = publish_message.correlation
            and w.taken_by is null and w.instance_key is not null and w.process_id <> all (had_newest)
    )) > 0 loop
    end loop;
    loop
        -- A subscription may go while we wait for its row. Then the next one of its process is found in the next round.
        waiting := array(
            select f.subscription_key
            from (
                select distinct on (w.process_id) w.subscription_key
                from shardclock.subscriptions w
                where w.kind = 'message' and w.tenant_id = publish_message.tenant_id
                    and w.name = publish_message.name and w.correlation = publish_message.correlation
                    and w.taken_by is null and w.instance_key is not null and w.process_id <> all (reached)
                order by w.process_id, w.opened_at
            ) f
        );
        exit when waiting = '{}';
        for got in
            update shardclock.subscriptions s
            set taken_by = case when s.is_once then message end
            where s.subscription_key = any (waiting) and s.taken_by is null
            returning s.*
        loop
            perform shardclock.send_signal(got.instance_key, got.tenant_id, signal, got.token, got.node_id);
            reached := reached || got.process_id;
            return next got.instance_key;
        end loop;
    end loop;
    for got in
        select s.*
        from shardclock.subscriptions s
        where s.kind = 'message' and s.tenant_id = publish_message.tenant_id and s.name = publish_message.name
            and s.definition_key is not null and s.process_id <> all (reached)
    loop
        reached := reached || got.process_id;
        return next shardclock.send_signal(
            null, got.tenant_id,
            signal || jsonb_build_object('kind', 'begin', 'definition', got.definition_key), null, got.node_id
        );
    end loop;
    if time_to_live > interval '0' then
        insert into shardclock.messages (
            message_key, expires_at, tenant_id, name, correlation, correlated, variables
        )
        values (
            message, now() + time_to_live, publish_message.tenant_id, publish_message.name,
            publish_message.correlation, reached, publish_message.variables
        );
    end if;
end
$$;

-- A call reads the kept messages of a wait once. Before, it read them again for each message that it gave.
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
