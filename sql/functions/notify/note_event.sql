-- Writes an operator event in the transaction of the change that causes it; a trigger calls this function.
--
-- The function writes no event if the tenant has no endpoint that subscribes to this kind of event.
--
-- in:    nothing
-- out:   trigger
-- locks: nothing but the new row
-- index: event_subscriptions_pkey; for an incident instances_pkey
create or replace function shardclock.note_event()
returns trigger
language plpgsql
-- The function runs as its owner, so that each role with the right to change the row can write the event.
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    tenant text := 'default';
    kind text;
    subject text;
    sentence text;
    failures integer;
    detail jsonb := '{}';
begin
    case tg_table_name
        when 'dead_letters' then
            tenant := new.tenant_id;
            kind := case new.target when 'process:instance' then 'process.incident' else 'delivery.dead' end;
            subject := new.target;
            sentence := format(
                'the delivery of timer %s%s to %s was given up: %s', new.timer_key, ' (' || new.name || ')', new.target,
                new.reason
            );
            detail := jsonb_build_object(
                'timer_key', new.timer_key, 'name', new.name, 'target', new.target, 'reason', new.reason
            );
        when 'incidents' then
            select i.tenant_id, i.process_id into tenant, subject
            from shardclock.instances i
            where i.instance_key = new.instance_key;
            kind := 'process.incident';
            sentence := format(
                'instance %s of process %s has an incident at %s: %s', new.instance_key, subject, new.node_id,
                new.sentence
            );
            detail := jsonb_build_object(
                'instance_key', new.instance_key, 'process_id', subject, 'node_id', new.node_id, 'reason',
                new.sentence
            );
        when 'jobs' then
            kind := 'job.failed';
            subject := new.name;
            failures := new.consecutive_failures;
            sentence := format(
                'job %s failed, %s in a row: %s', new.name,
                case when failures = 1 then '1 time' else failures || ' times' end,
                coalesce(new.last_reason, new.last_outcome)
            );
            detail := jsonb_build_object(
                'job', new.name, 'failures', failures, 'outcome', new.last_outcome, 'reason', new.last_reason
            );
        when 'endpoints' then
            tenant := new.tenant_id;
            kind := 'endpoint.disabled';
            subject := new.name;
            sentence := format('endpoint webhook:%s is disabled: %s', new.name, new.disabled_why);
            detail := jsonb_build_object('endpoint', new.name, 'reason', new.disabled_why);
        when 'identity' then
            kind := 'cluster.hold';
            subject := case when new.held_why is null then 'release' else 'hold' end;
            sentence := case
                when new.held_why is null then 'the hold has ended, and timers fire again: ' || old.held_why
                else 'the database is on hold, and no timer fires: ' || new.held_why
            end;
            detail := jsonb_build_object(
                'held', new.held_why is not null, 'reason', coalesce(new.held_why, old.held_why)
            );
        when 'holders' then
            kind := 'cluster.takeover';
            subject := new.role;
            sentence := format(
                'the %s %s on %s was lost, and others have taken over its slots', new.role, new.actor_name, new.host
            );
            detail := jsonb_build_object('role', new.role, 'actor', new.actor_name, 'host', new.host);
    end case;
    insert into shardclock.operator_events (failures, tenant_id, kind, subject, sentence, detail)
    select
        failures, tenant, kind, subject, sentence, jsonb_strip_nulls(detail)
    where exists (
        select
        from shardclock.event_subscriptions s
        where s.tenant_id = tenant and kind = any (s.kinds)
    );
    return null;
end
$$;

comment on function shardclock.note_event is
    'Internal: Writes an operator event, if an endpoint subscribes to this kind of event.';
