-- A row is looked up by its key through the key's own index, whenever the plan was made. On a table that was emptied and
-- vacuumed, to read a whole index that has the key is as cheap as a probe: docs/decisions/0005-queue-plans.md. So no other
-- index has it, but in an expression, by which the rows of a queue are put in order. Those of instances and tasks stay:
-- they are read in order with a tenant and without, and a page of them is one statement.

drop index shardclock.deliveries_by_lane;
create index deliveries_by_lane on shardclock.deliveries (target, tenant_id, next_attempt_at, (timer_key + 0));

drop index shardclock.deliveries_failing;
create index deliveries_failing on shardclock.deliveries (target, tenant_id, next_attempt_at, (timer_key + 0))
    where failed_attempts > 0;

drop index shardclock.business_keys_by_key;
create index business_keys_by_key on shardclock.business_keys (business_key, tenant_id, (-instance_key));

drop index shardclock.messages_by_name;
create index messages_by_name on shardclock.messages (tenant_id, name, correlation, (message_key + 0));

-- Of one version those that run are counted, however many there are of others. The condition is written as nobody else
-- asks: on an empty table this index would be as good as any for those who look for children that run.
create index instances_running on shardclock.instances (definition_key) where (ended_at is null) is true;

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
        order by m.message_key + 0
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
