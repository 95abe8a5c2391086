-- Cancels an instance that no engine could begin, because its start is a dead letter.
--
-- in:    instance_key bigint, signal_key bigint
-- out:   boolean
-- locks: the start's dead letter, until the transaction ends
-- index: dead_letters_pkey, deliveries_pkey, definitions_pkey
create or replace function shardclock.cancel_start(instance_key bigint, signal_key bigint default null)
returns boolean
language plpgsql
security definer
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    served constant text := coalesce(nullif(current_setting('shardclock.tenants', true), ''), '*');
    start shardclock.dead_letters;
    asked jsonb;
begin
    delete from shardclock.dead_letters d
    where d.timer_key = cancel_start.instance_key
        and (d.target = 'process:instance') is true
        and d.process_instance_key is null
    returning d.* into start;
    if not found then
        return false; -- another caller has redriven or discarded the dead letter
    end if;
    if served <> '*' and start.tenant_id <> all (nullif(served, '*')::text[]) then
        raise exception 'instance % belongs to a tenant that the session does not serve', instance_key
            using errcode = 'insufficient_privilege', constraint = 'instance_of_another_tenant';
    end if;
    -- If an engine calls this function, the record names the sender of the cancellation.
    select d.payload into asked
    from shardclock.deliveries d
    where d.timer_key = signal_key and d.process_instance_key = start.timer_key;
    if asked ->> 'by' is null then
        asked := jsonb_build_object(
            'by', session_user, 'key_prefix', nullif(left(current_setting('shardclock.key_prefix', true), 60), '')
        );
    end if;
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, target_element_id, name,
        schedule, detail
    )
    values (
        start.timer_key, start.due_date, start.created_at, start.occurrence, 'DISCARDED', start.tenant_id,
        start.timer_type, start.target, start.target_element_id, start.name, start.schedule,
        jsonb_build_object('by', asked ->> 'by', 'reason', 'its instance was cancelled')
    );
    insert into shardclock.instances (
        instance_key, definition_key, version, started_at, ended_at, tenant_id, process_id, outcome
    )
    select start.timer_key, d.definition_key, 1, start.created_at, now(), d.tenant_id, d.process_id, 'CANCELED'
    from shardclock.definitions d
    where d.definition_key = (start.payload ->> 'definition')::bigint;
    if found then
        insert into shardclock.instance_steps (instance_key, version, holder, signals, passes)
        values (
            start.timer_key, 1, 0,
            jsonb_build_array(
                jsonb_strip_nulls(
                    jsonb_build_object(
                        'key', start.timer_key, 'kind', 'cancel', 'token', 1, 'by', asked ->> 'by',
                        'key_prefix', asked ->> 'key_prefix'
                    )
                )
            ),
            '[]'
        );
    else
        -- If the process was deleted, there is no definition, so no row of the instance can be written.
        delete from shardclock.business_keys b where b.instance_key = start.timer_key;
    end if;
    return true;
end
$$;

comment on function shardclock.cancel_start is
    'Internal: Cancels an instance with a given-up start; false: another caller has redriven or discarded the start.';
