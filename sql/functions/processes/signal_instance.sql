-- Sends a signal to a running instance; the instance's history names the caller.
--
-- in:    instance_key bigint, tenant_id text, signal jsonb, token bigint
-- out:   text: SENT or NOT_FOUND
-- locks: the new signal
-- index: instances_pkey, deliveries_pkey
create or replace function shardclock.signal_instance(
    instance_key bigint, tenant_id text, signal jsonb, token bigint default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    owner text := shardclock.tenant_of_instance(instance_key, tenant_id);
begin
    if owner is null then
        return 'NOT_FOUND';
    end if;
    perform shardclock.send_signal(instance_key, owner, signal || jsonb_build_object('by', session_user), token);
    return 'SENT';
end
$$;

comment on function shardclock.signal_instance is 'Internal: Sends a signal to a running instance.';
