-- Sends a signal to an instance of a process: stores a delivery that an engine processes.
--
-- A gateway sends the signals of all callers with its own role. A session setting contains the prefix of the caller's
-- API key. The signal, the instance's history and the task's history store this prefix, so a signal needs no audit
-- record.
--
-- in:    instance_key bigint, tenant_id text, signal jsonb, token bigint, node_id text
-- out:   bigint: timer_key of the signal
-- locks: the new row
-- index: none
create or replace function shardclock.send_signal(
    instance_key bigint, tenant_id text, signal jsonb, token bigint default null, node_id text default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    key_prefix text := left(current_setting('shardclock.key_prefix', true), 60);
    key bigint;
begin
    if octet_length(signal::text) > 1049600 then
        raise exception 'signal has % bytes: the limit is 1049600 (1 MiB of variables, and 1 KiB for the rest)',
            octet_length(signal::text)
            using errcode = 'invalid_parameter_value', constraint = 'invalid_signal';
    end if;
    if key_prefix <> '' then
        signal := signal || jsonb_build_object('key_prefix', key_prefix);
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

comment on function shardclock.send_signal is 'Internal: Sends a signal to an instance of a process.';
