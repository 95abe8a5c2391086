-- Messages of one name and key are given in the order in which they were published. One that was kept was overtaken by a
-- newer one, if that was published between a token's coming to wait and the engine's look for what is kept.
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
    -- Who has come to wait gets what was kept before, also in the moment before an engine looks for it.
    if exists (
        select from shardclock.messages m
        where m.tenant_id = publish_message.tenant_id and m.name = publish_message.name
            and m.correlation = publish_message.correlation and m.expires_at > now()
    ) then
        loop
            exit when shardclock.correlate_waiting(array(
                select w.instance_key
                from shardclock.subscriptions w
                where w.kind = 'message' and w.tenant_id = publish_message.tenant_id
                    and w.name = publish_message.name and w.correlation = publish_message.correlation
                    and w.taken_by is null and w.instance_key is not null
            )) = 0;
        end loop;
    end if;
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
