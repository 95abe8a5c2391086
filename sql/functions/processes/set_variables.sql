-- Sets variables of a running instance.
--
-- in:    instance_key bigint, variables jsonb, token bigint, tenant_id text
-- out:   text
-- locks: the new signal
-- index: instances_pkey, deliveries_pkey
create or replace function shardclock.set_variables(
    instance_key bigint, variables jsonb, token bigint default 1, tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
    perform shardclock.check_variables(variables);
    return shardclock.signal_instance(
        instance_key, tenant_id, jsonb_build_object('kind', 'variables', 'variables', variables), token
    );
end
$$;

comment on function shardclock.set_variables is $$Sets variables of an instance.

instance_key: the instance
variables: a JSON object; other variables don't change
token: the token whose variables are set; 1: the variables of the process itself
tenant_id: refuse an instance of another tenant; null: any tenant
returns: SENT, or NOT_FOUND if the instance has ended or is unknown
errors: 22023 for variables that are not an object or have more than 1 MiB
example: select shardclock.set_variables(42, '{"paid": true}');
$$;
