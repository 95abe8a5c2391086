-- Ends tokens of an instance and begins tokens at other nodes, for an operator.
--
-- in:    instance_key bigint, terminated bigint[], begun text[], tenant_id text
-- out:   text
-- locks: the new signal
-- index: instances_pkey, deliveries_pkey
create or replace function shardclock.move_tokens(
    instance_key bigint, terminated bigint[], begun text[], tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if array_ndims(terminated) > 1 or array_ndims(begun) > 1
        or array_position(terminated, null) is not null or array_position(begun, null) is not null
    then
        raise exception 'terminated and begun are lists of tokens and of ids, without nulls and without lists inside'
            using errcode = 'invalid_parameter_value', constraint = 'invalid_move';
    end if;
    return shardclock.signal_instance(
        instance_key, tenant_id,
        jsonb_build_object('kind', 'moved', 'terminated', coalesce(terminated, '{}'), 'begun', coalesce(begun, '{}'))
    );
end
$$;

comment on function shardclock.move_tokens is $$Moves tokens of an instance: terminates some tokens, and begins others at the given nodes. If a token or a node does not exist, the call has no effect.

instance_key: the instance
terminated: tokens that end
begun: ids of nodes at which tokens begin
tenant_id: refuse an instance of another tenant; null: any tenant
returns: SENT, or NOT_FOUND if the instance has ended or is unknown
errors: 22023 for a list that contains a null or another list
example: select shardclock.move_tokens(42, terminated => '{3}', begun => '{ship}');
$$;
