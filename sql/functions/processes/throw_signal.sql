-- Throws a signal: each instance that waits for the signal gets it, and signal start events begin instances.
--
-- in:    name text, variables jsonb, tenant_id text
-- out:   setof bigint: the instances that get the signal now
-- locks: the new signals
-- index: subscriptions_in_order, deliveries_of_throws
create or replace function shardclock.throw_signal(
    name text, variables jsonb default '{}', tenant_id text default 'default'
)
returns setof bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    -- One call writes the signal for at most 500 subscriptions, with at most 4 MiB of variables in total.
    receivers_max integer := greatest(1, least(500, 4194304 / greatest(1, octet_length(variables::text))));
    receivers integer;
    newest bigint;
    got record;
begin
    perform shardclock.check_text('tenant_id', tenant_id, 200);
    perform shardclock.check_text('name', name, 200);
    perform shardclock.check_variables(variables);
    select count(*), max(f.subscription_key) into receivers, newest
    from (
        select s.subscription_key
        from shardclock.subscriptions s
        where (s.kind = 'signal') is true and s.tenant_id = throw_signal.tenant_id and s.name = throw_signal.name
        order by s.subscription_key + 0 desc
        limit receivers_max + 1
    ) f;
    -- If engines are still sending an earlier signal of this name, they also send this signal, after the earlier one.
    if receivers > receivers_max or receivers > 0 and (
        select true
        from shardclock.deliveries d
        where (d.target = 'process:instance' and d.payload ->> 'kind' = 'thrown') is true
            and d.payload ->> 'name' = throw_signal.name and d.tenant_id = throw_signal.tenant_id
        order by d.timer_key + 0
        limit 1
    ) then
        perform shardclock.send_signal(
            null, tenant_id,
            jsonb_build_object(
                'kind', 'thrown', 'name', name, 'variables', variables, 'after', 0, 'until', newest,
                'at', clock_timestamp()
            )
        );
        return query
            select s.instance_key
            from shardclock.subscriptions s
            where (s.kind = 'signal') is true and s.tenant_id = throw_signal.tenant_id and s.name = throw_signal.name
                and s.subscription_key + 0 <= newest and s.instance_key is not null
            order by s.instance_key, s.token;
        return;
    end if;
    for got in
        select s.*
        from shardclock.subscriptions s
        where (s.kind = 'signal') is true and s.tenant_id = throw_signal.tenant_id and s.name = throw_signal.name
        order by s.instance_key, s.token
    loop
        if got.instance_key is null then
            return next shardclock.send_signal(
                null, got.tenant_id,
                jsonb_build_object('kind', 'begin', 'definition', got.definition_key, 'variables', variables),
                null, got.node_id
            );
        else
            perform shardclock.send_signal(
                got.instance_key, got.tenant_id, jsonb_build_object('kind', 'happened', 'variables', variables),
                got.token, got.node_id
            );
            return next got.instance_key;
        end if;
    end loop;
end
$$;

comment on function shardclock.throw_signal is $$Throws a signal, in the caller's transaction. Each instance that waits
for the signal now gets it, and signal start events begin instances. An engine sends the signal in parts in three cases:
more than 500 instances wait; the instances would get more than 4 MiB of variables together; an earlier signal of this
name is still being sent.

name: the signal's name, as in the model
variables: a JSON object for each instance
tenant_id: the tenant of the processes
returns: the keys of the instances that get the signal; no row: no instance waits. If the signal is sent in parts, the keys of the new instances are missing
errors: 22023 for a text of more than 200 characters, and for variables that are not an object or have more than 1 MiB
example: select shardclock.throw_signal('stop-all');
$$;
