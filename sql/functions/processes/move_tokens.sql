-- in:    instance_key bigint, terminated bigint[], begun text[], tenant_id text
-- out:   text
-- locks: the new signal
-- index: instances_pkey, deliveries_pkey
-- needs: signal_instance
create or replace function shardclock.move_tokens(
    instance_key bigint, terminated bigint[], begun text[], tenant_id text default null
)
returns text
language sql
set search_path = pg_catalog, pg_temp
as $$
    select shardclock.signal_instance(
        instance_key, tenant_id,
        jsonb_build_object('kind', 'moved', 'terminated', coalesce(terminated, '{}'), 'begun', coalesce(begun, '{}'))
    )
$$;

comment on function shardclock.move_tokens is $$Moves tokens of an instance by hand: some tokens are terminated, and others
begin at the given nodes. If a token or a node does not exist, nothing happens.

instance_key: the instance
terminated: tokens that end
begun: ids of nodes at which tokens begin
tenant_id: refuse an instance of another tenant; null: any tenant
returns: SENT, or NOT_FOUND if the instance has ended or is unknown
errors: none
example: select shardclock.move_tokens(42, terminated => '{3}', begun => '{ship}');
$$;
