-- Sends a message to the token of each process that has waited longest. In a process without a waiting token, a message
-- start event begins an instance. A message with a time to live is also stored.
--
-- in:    name text, correlation text, variables jsonb, tenant_id text, time_to_live interval
-- out:   setof bigint: the instances that get the message now
-- locks: the message's name and key, until the transaction ends; the subscriptions that it takes
-- index: subscriptions_by_name, messages_by_name
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
    message bigint;
    got record;
    reached text[] := '{}';
    had_newest text[];
    waiting bigint[];
    behind bigint[];
    signal jsonb := jsonb_build_object('kind', 'happened', 'variables', variables);
begin
    perform shardclock.check_text('tenant_id', tenant_id, 200);
    perform shardclock.check_text('name', name, 200);
    perform shardclock.check_text('correlation', correlation, 200, fewest => 0);
    perform shardclock.check_variables(variables);
    if time_to_live > interval '366 days' then
        raise exception 'time_to_live % is refused: a message is kept for at most 366 days', time_to_live
            using errcode = 'invalid_parameter_value', constraint = 'invalid_time_to_live';
    end if;
    perform shardclock.lock_message(tenant_id, name, correlation);
    -- Draw the key under the lock, so that the keys have the same order as the messages.
    message := nextval('shardclock.timer_key_seq');
    if time_to_live > interval '0' then
        signal := signal || jsonb_build_object('message', message);
    end if;
    select m.correlated into had_newest
    from shardclock.messages m
    where m.tenant_id = publish_message.tenant_id and m.name = publish_message.name
        and m.correlation = publish_message.correlation and m.expires_at > now()
    order by m.message_key + 0 desc
    limit 1;
    loop
        -- Find the first waiting token of each process. While this statement waits for a subscription's row, another
        -- transaction may replace the row; the next pass of the loop finds the new row.
        select array_agg(f.subscription_key), array_agg(f.instance_key) filter (where f.is_behind)
        into waiting, behind
        from (
            select distinct on (w.process_id)
                w.subscription_key, w.instance_key,
                -- A process gets messages in order: after a process has got a message, it gets no earlier message.
                w.process_id <> all (had_newest) or exists (
                    select
                    from shardclock.messages m
                    where m.tenant_id = w.tenant_id and m.name = w.name and m.correlation = w.correlation
                        and m.passed_over and m.expires_at > now() and w.process_id <> all (m.correlated)
                        and octet_length(m.variables::text) <= 1048576
                ) as is_behind
            from shardclock.subscriptions w
            where w.kind = 'message' and w.tenant_id = publish_message.tenant_id
                and w.name = publish_message.name and w.correlation = publish_message.correlation
                and w.taken_by is null and w.instance_key is not null and w.process_id <> all (reached)
            order by w.process_id, w.opened_at
        ) f;
        exit when waiting is null;
        -- First correlate the stored messages that no engine has correlated yet. A token that gets a stored message may
        -- stop waiting, so search for waiting tokens again.
        continue when behind is not null and shardclock.correlate_waiting(behind) > 0;
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
        if time_to_live > interval '0' and got.process_id <> all (had_newest) then
            -- From now on this process has the newest message, and skips the earlier messages.
            update shardclock.messages m
            set passed_over = true
            where m.tenant_id = publish_message.tenant_id and m.name = publish_message.name
                and m.correlation = publish_message.correlation and m.expires_at > now()
                and got.process_id <> all (m.correlated) and not m.passed_over;
        end if;
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

comment on function shardclock.publish_message is $$Publishes a message, in the caller's transaction. In each process, the message goes to the token that has waited longest for this name and correlation key. If no token waits, a message start event begins an instance. With a time to live, the message is stored for tokens that wait later.

name: the message's name, as in the model
correlation: the correlation key; it must equal the value of the waiting token's expression
variables: a JSON object for the token
tenant_id: the tenant of the processes
time_to_live: how long the message is stored, at most 366 days; 0: only for tokens that wait now
returns: the keys of the instances that get the message now; no row: no instance was waiting
errors: 22023 for a text of more than 200 characters, for variables that are not an object or have more than 1 MiB, or for a time_to_live of more than 366 days
example: select shardclock.publish_message('paid', correlation => '42', time_to_live => 'PT1H');
$$;
