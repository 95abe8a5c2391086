-- What engines can read is what HTTP takes: a number that no double holds would be told a client as done, and then be
-- refused by whoever reads it. Those in texts are none.
create or replace function shardclock.check_variables(variables jsonb)
returns void
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
begin
    if jsonb_typeof(variables) is distinct from 'object' then
        raise exception 'variables are %: give a JSON object, of names and values',
            coalesce(jsonb_typeof(variables), 'null')
            using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(variables::text) > 1048576 then
        raise exception 'variables have % bytes: the limit is 1048576 (1 MiB)', octet_length(variables::text)
            using errcode = 'invalid_parameter_value';
    end if;
    -- 310 digits, in two parts: Postgres counts to 255. Most variables have none, and are not read twice.
    if variables::text ~ '[0-9]{155}[0-9]{155}'
        and regexp_replace(variables::text, E'"(\\\\.|[^"\\\\])*"', '""', 'g') ~ '(^|[^0-9.])[0-9]{155}[0-9]{155}'
    then
        raise exception 'variables hold a number of more than 309 digits, which no double holds: write it as a text'
            using errcode = 'invalid_parameter_value';
    end if;
end
$$;

-- Who waits is given every kept message that is his: a wait that goes on after a message gets the next one at once, not
-- at the next look for all. Names are locked only where a message is kept: each lock takes a place in the one table that
-- the locks of all sessions share, and a process may wait for thousands of keys.
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
    <<waits>>
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
        loop
            -- A statement of its own, so that it sees what was committed before we had the lock.
            select m.* into found_message
            from shardclock.messages m
            where m.tenant_id = waiting.tenant_id and m.name = waiting.name and m.correlation = waiting.correlation
                and m.expires_at > now() and waiting.process_id <> all (m.correlated)
                -- One that no signal can carry, of before variables had a limit: here it would fail for all.
                and octet_length(m.variables::text) <= 1048576
            order by m.message_key + 0
            limit 1;
            exit when not found;
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
            exit waits when given >= given_max;
            exit when waiting.is_once;
        end loop;
    end loop;
    return given;
end
$$;
