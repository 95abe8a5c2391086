-- The largest message reaches whoever waits for it. A signal holds a message and a little more, so it may be 1 KiB larger
-- than check_variables allows for a message. Before, one such message failed for all tokens that came to wait with it.
create or replace function shardclock.send_signal(
    instance_key bigint, tenant_id text, signal jsonb, token bigint default null, node_id text default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    if octet_length(signal::text) > 1049600 then
        raise exception 'a signal has % bytes: the limit is 1049600 (1 MiB of variables, and 1 KiB for the rest)',
            octet_length(signal::text)
            using errcode = 'invalid_parameter_value';
    end if;
    loop
        insert into shardclock.deliveries (
            timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence,
            slot, tenant_id, timer_type, target, target_element_id, payload
        )
        select
            k.key, send_signal.instance_key, token, clock_timestamp(), now(), now(), 1,
            coalesce(send_signal.instance_key, k.key) % 840, tenant_id, 'USER', 'process:instance', node_id, signal
        from nextval('shardclock.timer_key_seq') as k (key)
        on conflict do nothing
        returning timer_key into key;
        exit when key is not null;
        perform shardclock.advance_keys();
    end loop;
    return key;
end
$$;

-- A message is kept for a year at most: each is looked at again and again for who may wait for it.
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

comment on function shardclock.publish_message is $$Publishes a message, in the caller's transaction. Of each process, the
token that waits longest for the name and the correlation key gets it; if none waits, a message start event begins an
instance. With a time to live, the message is kept for that long, for tokens that come later.

name: the message's name, as in the model
correlation: the key that the waiting token's expression must have found
variables: a JSON object, which the token gets
tenant_id: whose processes
time_to_live: how long it is kept, 366 days at most; 0: it is for those who wait now
returns: the keys of the instances that get it now; none: nobody waits
errors: 22023 for variables that are no object or have more than 1 MiB, or for a longer time_to_live
example: select shardclock.publish_message('paid', correlation => '42', time_to_live => 'PT1H');
$$;

create or replace function shardclock.correlate_waiting(instance_keys bigint[])
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    waiting record;
    found_message shardclock.messages;
    given integer := 0;
begin
    for waiting in
        select s.*
        from shardclock.subscriptions s
        where s.instance_key = any (instance_keys) and s.kind = 'message' and s.taken_by is null
        order by s.tenant_id, s.name, s.correlation, s.opened_at
    loop
        -- Whoever publishes this message now may not commit for long: it is looked for again a little later.
        continue when not pg_try_advisory_xact_lock(
            hashtextextended(waiting.tenant_id || ' ' || waiting.name || ' ' || waiting.correlation, 19)
        );
        -- A statement of its own, so that it sees what was committed while we waited for the lock.
        select m.* into found_message
        from shardclock.messages m
        where m.tenant_id = waiting.tenant_id and m.name = waiting.name and m.correlation = waiting.correlation
            and m.expires_at > now() and waiting.process_id <> all (m.correlated)
            -- One that no signal can carry, of before variables had a limit: here it would fail for all.
            and octet_length(m.variables::text) <= 1048576
        order by m.message_key
        limit 1;
        continue when not found;
        update shardclock.subscriptions s
        set taken_by = case when s.is_once then found_message.message_key end
        where s.subscription_key = waiting.subscription_key and s.taken_by is null;
        continue when not found;
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
    return given;
end
$$;
