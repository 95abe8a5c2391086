-- How many attempts a service task has, as its model says (retries of zeebe:taskDefinition), how large variables are, and
-- for how long a start's key is remembered.

alter table shardclock.deliveries add column attempts_max integer;

comment on column shardclock.deliveries.attempts_max is
    'How many attempts its model gives a service task; null: its handler''s or endpoint''s policy says it.';

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

-- A key is remembered for a day, also while there is no engine to forget it.
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
