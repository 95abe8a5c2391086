-- Resolves an incident, so that the token tries its node again.
--
-- A signal that waits for a quota also has an incident. To resolve it, the function makes the signal due now.
--
-- in:    instance_key bigint, token bigint, tenant_id text
-- out:   text
-- locks: the new signal, or the signal that waits for a quota
-- index: incidents_pkey, instances_pkey, deliveries_pkey
create or replace function shardclock.resolve_incident(instance_key bigint, token bigint, tenant_id text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    signal bigint;
    has_stopped boolean;
begin
    select max(n.signal_key), bool_or(n.signal_key = 0) into signal, has_stopped
    from shardclock.incidents n
    join shardclock.instances i on i.instance_key = n.instance_key
    where n.instance_key = resolve_incident.instance_key
        and n.token = resolve_incident.token
        and (resolve_incident.tenant_id is null or i.tenant_id = resolve_incident.tenant_id);
    if signal is null then
        return 'NOT_FOUND';
    end if;
    if not has_stopped then
        -- Make the signal that waits for a quota due now.
        update shardclock.deliveries d
        set next_attempt_at = least(d.next_attempt_at, now())
        where d.timer_key = signal and d.process_instance_key = resolve_incident.instance_key
            and (d.target = 'process:instance') is true;
        if found then
            return 'SENT';
        end if;
        raise exception 'the incident of token % is a signal that no engine could take: send it again (shardclock dead-letters '
            'redrive %)', token, signal
            using errcode = 'object_not_in_prerequisite_state', constraint = 'incident_of_signal';
    end if;
    return shardclock.signal_instance(instance_key, tenant_id, '{"kind": "retried"}', token);
end
$$;

comment on function shardclock.resolve_incident is $$Resolves an incident, so that the token continues at its node.

instance_key: the instance
token: the token that stopped
tenant_id: refuse an instance of another tenant; null: any tenant
returns: SENT, or NOT_FOUND if the incident does not exist
errors: 55000 for the incident of a dead letter: redrive the dead letter instead
example: select shardclock.resolve_incident(42, 3);
$$;
