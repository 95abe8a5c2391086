-- How many attempts a service task has, as its model says (retries of zeebe:taskDefinition), how large variables are, for
-- how long a start's key is remembered, and which processes nobody can start by hand.

alter table shardclock.deliveries add column attempts_max integer;

comment on column shardclock.deliveries.attempts_max is
    'How many attempts its model gives a service task; null: its handler''s or endpoint''s policy says it.';

alter table shardclock.definitions add column starts_by_hand boolean not null default true;

comment on column shardclock.definitions.starts_by_hand is
    'It has a start event without a trigger; false: only what `starts` names begins it.';

-- Without retries, what is left of the model's attempts decides.
create or replace function shardclock.fail_service_task(
    task_key bigint,
    claim integer,
    reason text,
    retries integer default null,
    retry_after interval default '0',
    tenant_id text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    -- Of a task that is there and has an attempt left. Whatever is not found here is not found below.
    update shardclock.deliveries d
    set claimed_by = null,
        claimed_until = null,
        failed_attempts = d.failed_attempts + 1,
        next_attempt_at = now() + retry_after,
        failures = shardclock.with_failure(d.failures, d.failed_attempts + 1, reason, 0, now())
    where d.timer_key = task_key and d.claims = claim and d.claimed_by = 0 and d.timer_type = 'SERVICE_TASK'
        and (fail_service_task.tenant_id is null or d.tenant_id = fail_service_task.tenant_id)
        and coalesce(retries, d.attempts_max - d.failed_attempts - 1, 0) > 0;
    if found then
        return 'RETRIED';
    end if;
    return shardclock.end_service_task(
        task_key, claim, tenant_id, 'DEAD', jsonb_build_object('reason', reason),
        jsonb_build_object('kind', 'failed', 'reason', coalesce(reason, 'no reason was given'))
    );
end
$$;

comment on function shardclock.fail_service_task is $$Says that a service task that the caller has taken could not be done.

task_key: the task
claim: as it was taken
reason: why, in a sentence
retries: how many further attempts there may be; 0: none, so its instance has an incident; null: as many as the model has left, which is none if it has no retries
retry_after: when the next attempt may be made
tenant_id: refuse a task of another tenant; null: of any
returns: RETRIED; DEAD if there is no further attempt; NOT_FOUND as for complete_service_task
errors: none
example: select shardclock.fail_service_task(42, 1, 'no box is left', retries => 2, retry_after => 'PT5M');
$$;

-- Refuses what is no object of variables, or too large: a message that is kept has nobody yet who would refuse it.
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
end
$$;

-- Deploys the processes of a model that the caller has read and found to be right. `said` is an array of
-- {process_id, name, starts, starts_by_hand}; an older release says nothing of the last one.
create or replace function shardclock.deploy_model(
    tenant_id text, resource text, digest bytea, model bytea, said jsonb
)
returns table (definition_key bigint, process_id text, version integer, is_new boolean)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    one jsonb;
    latest shardclock.definitions;
begin
    -- In order, so that two deployments of the same processes don't deadlock.
    for one in select s.one from jsonb_array_elements(said) as s (one) order by s.one ->> 'process_id' loop
        perform pg_advisory_xact_lock(hashtextextended(deploy_model.tenant_id || ' ' || (one ->> 'process_id'), 18));
        select d.* into latest
        from shardclock.definitions d
        where d.definition_key = shardclock.find_definition(deploy_model.tenant_id, one ->> 'process_id');
        process_id := one ->> 'process_id';
        is_new := latest.digest is distinct from deploy_model.digest or latest.resource <> deploy_model.resource;
        if not is_new then
            definition_key := latest.definition_key;
            version := latest.version;
            return next;
            continue;
        end if;
        select coalesce(max(d.version), 0) + 1 into version
        from shardclock.definitions d
        where d.tenant_id = deploy_model.tenant_id and d.process_id = one ->> 'process_id';
        definition_key := nextval('shardclock.timer_key_seq');
        insert into shardclock.definitions (
            definition_key, tenant_id, process_id, version, name, resource, digest, model, starts,
            starts_by_hand
        )
        values (
            deploy_model.definition_key, deploy_model.tenant_id, deploy_model.process_id, deploy_model.version,
            one ->> 'name', deploy_model.resource, deploy_model.digest, deploy_model.model, one -> 'starts',
            coalesce((one ->> 'starts_by_hand')::boolean, true)
        );
        if latest.definition_key is not null then
            perform shardclock.close_starts(latest.definition_key);
        end if;
        perform shardclock.open_starts(definition_key);
        return next;
    end loop;
end
$$;

-- A key is remembered for a day, also while there is no engine to forget it. A process that only a message, a signal or a
-- timer begins is refused here: its engine could only bury the signal.
create or replace function shardclock.start_process(
    process_id text,
    variables jsonb default '{}',
    tenant_id text default 'default',
    version integer default null,
    idempotency_key text default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    definition bigint := shardclock.find_definition(tenant_id, process_id, version);
    before shardclock.process_starts;
    begun_by text;
    key bigint;
begin
    perform shardclock.check_variables(variables);
    if idempotency_key is not null then
        -- Whoever starts with the same key at this moment is waited for.
        perform pg_advisory_xact_lock(hashtextextended(tenant_id || ' ' || idempotency_key, 20));
        select s.* into before
        from shardclock.process_starts s
        where s.tenant_id = start_process.tenant_id and s.idempotency_key = start_process.idempotency_key
            -- An older one is only not forgotten yet.
            and s.asked_at > now() - interval '1 day';
        if before.process_id <> start_process.process_id then
            raise exception 'idempotency_key "%" has started the process "%": use another key',
                left(idempotency_key, 60), left(before.process_id, 60)
                using errcode = 'invalid_parameter_value';
        end if;
        if before.instance_key is not null then
            return before.instance_key;
        end if;
    end if;
    if definition is null then
        -- What is not there has a state of its own, so that an API can say so.
        raise exception 'process "%" %', left(process_id, 60), case
            when version is not null and shardclock.find_definition(tenant_id, process_id) is not null
                then format('has no version %s: leave it out for the newest', version)
            else format(
                'is unknown: %s', coalesce(
                    (
                        select 'the processes are ' || string_agg(d.process_id, ', ' order by d.process_id)
                        from (
                            select distinct d.process_id
                            from shardclock.definitions d
                            where d.tenant_id = start_process.tenant_id and d.deleted_at is null
                            order by d.process_id
                            limit 20
                        ) d
                    ),
                    'none is deployed (shardclock deploy)'
                )
            )
        end
        using errcode = 'no_data_found';
    end if;
    select string_agg(s.said, ' or ' order by s.said) into begun_by
    from (
        select distinct case s.start ->> 'kind'
            when 'timer' then 'its timer'
            else format('the %s "%s"', s.start ->> 'kind', left(s.start ->> 'name', 60))
        end as said
        from shardclock.definitions d
        cross join lateral jsonb_array_elements(d.starts) as s (start)
        where d.definition_key = definition and not d.starts_by_hand
        order by said
        limit 5
    ) s;
    if begun_by is not null then
        raise exception 'process "%" has no start event without a trigger: it begins by %', left(process_id, 60), begun_by
            using errcode = 'invalid_parameter_value';
    end if;
    key := shardclock.send_signal(
        null, tenant_id, jsonb_build_object('kind', 'begin', 'definition', definition, 'variables', variables)
    );
    if idempotency_key is not null then
        insert into shardclock.process_starts (tenant_id, idempotency_key, process_id, instance_key)
        values (start_process.tenant_id, start_process.idempotency_key, start_process.process_id, key)
        on conflict on constraint process_starts_pkey
            do update set process_id = excluded.process_id, instance_key = excluded.instance_key, asked_at = now();
    end if;
    return key;
end
$$;

comment on function shardclock.start_process is $$Starts an instance of a process, in the caller's transaction: an
engine begins it once that is committed.

process_id: the id of a deployed process
variables: a JSON object, the variables with which it begins
tenant_id: whose process it is
version: which version; null: the newest
idempotency_key: called again with it within a day, it starts nothing and returns the same instance; null: each call starts one
returns: the instance_key
errors: P0002 for a process or a version that is not deployed; 22023 for variables that are no object or have more than 1 MiB, a key that has started another process, or a process that only its message, signal or timer begins
example: select shardclock.start_process('order', variables => '{"order": 42}', idempotency_key => 'order-42');
$$;
