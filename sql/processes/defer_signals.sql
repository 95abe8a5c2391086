-- Defers signals that no engine could process. After the last attempt, a signal becomes a dead letter, and its instance
-- gets an incident. The start of a called instance does not become a dead letter, because a redrive would begin the
-- instance a second time. Instead the calling instance gets a signal and an incident; when a person resolves this
-- incident, the call is repeated.
--
-- in:    :holder bigint, :timer_keys bigint[], :reason text, :delay interval, :tries_max integer
--        :raises_incident boolean: whether an instance with a deferred signal has an incident until the signal is
--          processed
-- out:   timer_key bigint, given_up boolean
--        reported bigint or null: the key of the signal to the calling instance
--        no row if the holder has ended
-- locks: the signals' rows, until the statement ends; skips locked rows
-- index: deliveries_pkey, one probe for each signal; holders_pkey
with failing as materialized (
    select d.timer_key, d.failed_attempts + 1 >= :tries_max::integer as given_up
    from shardclock.deliveries d
    where d.timer_key = any (:timer_keys::bigint[]) and (d.target = 'process:instance') is true
        and exists (select from shardclock.holders h where h.holder = :holder::bigint and h.ended_at is null)
    for update skip locked
),
deferred as (
    update shardclock.deliveries d
    set failed_attempts = d.failed_attempts + 1,
        next_attempt_at = now() + :delay::interval,
        failures = shardclock.with_failure(d.failures, d.failed_attempts + 1, :reason::text, :holder::bigint, now())
    where d.timer_key = any (array(select f.timer_key from failing f where not f.given_up))
    returning d.timer_key, d.process_instance_key, d.element_instance_key, d.target_element_id
),
incident_of as (
    insert into shardclock.incidents (instance_key, token, signal_key, node_id, sentence)
    select
        p.process_instance_key, coalesce(p.element_instance_key, 1), p.timer_key, coalesce(p.target_element_id, ''),
        :reason
    from deferred p
    where :raises_incident::boolean and (
        select i.ended_at is null from shardclock.instances i where i.instance_key = p.process_instance_key
    )
    on conflict on constraint incidents_pkey do update set sentence = excluded.sentence
),
gone as (
    delete from shardclock.deliveries d
    where d.timer_key = any (array(select f.timer_key from failing f where f.given_up))
    returning d.*
),
buried as (
    insert into shardclock.dead_letters (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, fired_at, occurrence, claims,
        failed_attempts, slot, tenant_id, timer_type, target, target_element_id, name, schedule, reason, payload,
        failures
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.fired_at, g.occurrence,
        g.claims, g.failed_attempts + 1, g.slot, g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name,
        g.schedule, :reason, g.payload,
        shardclock.with_failure(g.failures, g.failed_attempts + 1, :reason, :holder, now())
    from gone g
    where g.payload ->> 'parent' is null
),
recorded as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder, intent,
        tenant_id, timer_type, target, target_element_id, name, schedule, detail
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence, :holder,
        'DEAD', g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule,
        jsonb_build_object('attempt', g.failed_attempts + 1, 'reason', :reason)
    from gone g
),
raised as (
    insert into shardclock.incidents (instance_key, token, signal_key, node_id, sentence)
    select
        g.process_instance_key, coalesce(g.element_instance_key, 1), g.timer_key, coalesce(g.target_element_id, ''),
        format('a signal could not be taken: %s; shardclock dead-letters redrive %s sends it again', :reason, g.timer_key)
    from gone g
    where (
        select i.ended_at is null from shardclock.instances i where i.instance_key = g.process_instance_key
    )
    on conflict do nothing
),
reported as materialized (
    select
        g.timer_key,
        shardclock.send_signal(
            (g.payload ->> 'parent')::bigint, g.tenant_id,
            jsonb_build_object('kind', 'failed', 'reason', format('the called process can''t begin: %s', :reason)),
            (g.payload ->> 'parent_token')::bigint
        ) as signal
    from gone g
    where g.payload ->> 'kind' = 'begin' and g.payload ->> 'parent' is not null
)
select f.timer_key, f.given_up, t.signal as reported
from failing f
left join reported t on t.timer_key = f.timer_key
