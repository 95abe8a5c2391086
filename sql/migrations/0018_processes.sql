-- Processes: deployed models, their instances, and what these wait for.
--
-- A signal to an instance is a delivery, whose target is `process:instance`: a timer that fires leaves one, and so does
-- whoever completes a task, publishes a message or cancels. An engine takes the signals of its slots, advances their
-- instances, and writes all that follows in one statement (sql/processes/apply_steps.sql). A delivery's
-- process_instance_key is the instance (null: its own timer_key becomes the key of a new one), element_instance_key the
-- token, target_element_id the node that waits, and payload the signal.

alter table shardclock.handlers add constraint target_is_no_process check (target not like 'process:%');

create table shardclock.definitions (
    definition_key bigint not null,
    tenant_id text not null,
    process_id text not null,
    version integer not null,
    name text not null,
    resource text not null,
    digest bytea not null,
    model bytea not null,
    starts jsonb not null,
    deployed_at timestamptz not null default now(),
    deleted_at timestamptz,

    constraint definitions_pkey primary key (definition_key),
    constraint tenant_id_is_1_to_200_characters check (length(tenant_id) between 1 and 200),
    constraint process_id_is_1_to_200_characters check (length(process_id) between 1 and 200),
    constraint model_is_at_most_4_mib check (octet_length(model) <= 4194304),
    constraint digest_is_of_sha256 check (octet_length(digest) = 32)
);

create unique index definitions_by_process on shardclock.definitions (tenant_id, process_id, version);

comment on table shardclock.definitions is 'Deployed processes, each version of each; an instance stays with its own.';
comment on column shardclock.definitions.resource is 'The file''s name, as it was deployed.';
comment on column shardclock.definitions.digest is 'SHA-256 of the model.';
comment on column shardclock.definitions.model is 'The BPMN file; it may have several processes.';
comment on column shardclock.definitions.starts is
    'The start events with a trigger: an array of {node_id, kind: timer, message or signal, and due_date, schedule or name}.';
comment on column shardclock.definitions.deleted_at is
    'When it was deleted: no instance begins any more, and those that run go on; null: it is there.';

create table shardclock.instances (
    instance_key bigint not null,
    definition_key bigint not null,
    parent_key bigint,
    parent_token bigint,
    version bigint not null,
    started_at timestamptz not null default now(),
    ended_at timestamptz,
    tenant_id text not null,
    process_id text not null,
    outcome text,
    error_code text,
    state text,
    result jsonb,

    constraint instances_pkey primary key (instance_key),
    constraint parent_is_whole check ((parent_key is null) = (parent_token is null)),
    constraint outcome_is_known check (outcome in ('COMPLETED', 'CANCELED', 'ERROR')),
    constraint end_is_whole check (num_nonnulls(ended_at, outcome) in (0, 2) and (ended_at is null) = (state is not null))
)
-- Each step updates a row, and no indexed column until the end: the room in each page keeps these updates heap-only.
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index instances_by_process on shardclock.instances (tenant_id, process_id, instance_key);
create index instances_by_parent on shardclock.instances (parent_key, parent_token) where parent_key is not null;
create index instances_of_parents_by_start on shardclock.instances (started_at) where parent_key is not null;
create index instances_by_end on shardclock.instances (ended_at) where ended_at is not null;

comment on table shardclock.instances is 'Instances of processes: those that run, and for some days those that have ended.';
comment on column shardclock.instances.parent_key is 'The instance whose call activity started this one, at parent_token.';
comment on column shardclock.instances.version is 'How often it was advanced: an engine that read an older version writes nothing.';
comment on column shardclock.instances.outcome is
    'COMPLETED, CANCELED, or ERROR: it threw an error that its caller may catch; null: it has not ended.';
comment on column shardclock.instances.state is 'Its tokens and variables, as the engine writes them; null: it has ended.';
comment on column shardclock.instances.result is 'The variables of the process at its end.';

create table shardclock.process_starts (
    tenant_id text not null,
    idempotency_key text not null,
    process_id text not null,
    instance_key bigint not null,
    asked_at timestamptz not null default now(),

    constraint process_starts_pkey primary key (tenant_id, idempotency_key),
    constraint idempotency_key_is_1_to_255_characters check (length(idempotency_key) between 1 and 255)
);

create index process_starts_by_age on shardclock.process_starts (asked_at);

comment on table shardclock.process_starts is
    'Starts that came with a key: for a day, the same key starts nothing again and gets the same instance.';

create table shardclock.instance_steps (
    instance_key bigint not null,
    version bigint not null,
    stepped_at timestamptz not null default clock_timestamp(),
    holder bigint not null,
    signals jsonb not null,
    passes jsonb not null,

    constraint instance_steps_pkey primary key (instance_key, version)
);

comment on table shardclock.instance_steps is 'What happened in instances, one row for each time that one was advanced.';
comment on column shardclock.instance_steps.holder is 'The engine that did it.';
comment on column shardclock.instance_steps.signals is
    'The signals in their order, an array of {key, kind, token, node, stale}; one that is stale changed nothing.';
comment on column shardclock.instance_steps.passes is
    'How tokens went, an array of [token, node, entered, left or terminated].';

create table shardclock.incidents (
    instance_key bigint not null,
    token bigint not null,
    signal_key bigint not null default 0,
    node_id text not null,
    sentence text not null,
    raised_at timestamptz not null default clock_timestamp(),

    constraint incidents_pkey primary key (instance_key, token, signal_key)
);

comment on table shardclock.incidents is 'Tokens that can''t go on until somebody has changed something and resolves it.';
comment on column shardclock.incidents.signal_key is
    'The signal that no engine could take, a dead letter now; 0: the token itself has stopped.';

create table shardclock.subscriptions (
    subscription_key bigint generated always as identity,
    instance_key bigint,
    token bigint,
    definition_key bigint,
    opened_at timestamptz not null default clock_timestamp(),
    taken_by bigint,
    is_once boolean not null,
    kind text not null,
    tenant_id text not null,
    name text not null,
    correlation text,
    process_id text not null,
    node_id text not null,

    constraint subscriptions_pkey primary key (subscription_key),
    constraint subscriber_is_one check (num_nonnulls(instance_key, definition_key) = 1),
    constraint kind_is_known check (kind in ('message', 'signal'))
);

create index subscriptions_by_name on shardclock.subscriptions (tenant_id, kind, name, correlation);
create index subscriptions_by_instance on shardclock.subscriptions (instance_key, token) where instance_key is not null;
create index subscriptions_by_definition on shardclock.subscriptions (definition_key) where definition_key is not null;

comment on table shardclock.subscriptions is
    'Who waits for messages and signals: tokens of instances, and start events of definitions.';
comment on column shardclock.subscriptions.taken_by is 'The message that has come for it and is on its way; null: none.';
comment on column shardclock.subscriptions.is_once is 'Whether one message ends the wait.';

create table shardclock.messages (
    message_key bigint not null,
    published_at timestamptz not null default now(),
    expires_at timestamptz not null,
    tenant_id text not null,
    name text not null,
    correlation text not null,
    correlated text[] not null default '{}',
    variables jsonb not null,

    constraint messages_pkey primary key (message_key)
);

create index messages_by_name on shardclock.messages (tenant_id, name, correlation, message_key);
create index messages_by_age on shardclock.messages (expires_at);

comment on table shardclock.messages is 'Messages that were published with a time to live, for tokens that come to wait later.';
comment on column shardclock.messages.correlated is 'The processes that got it: each gets a message once.';

create table shardclock.tasks (
    task_key bigint not null,
    instance_key bigint not null,
    token bigint not null,
    created_at timestamptz not null default now(),
    due_date timestamptz,
    completed_at timestamptz,
    tenant_id text not null,
    process_id text not null,
    node_id text not null,
    name text not null,
    assignee text,
    candidate_groups text[] not null default '{}',
    candidate_users text[] not null default '{}',
    form_key text,

    constraint tasks_pkey primary key (task_key),
    constraint tasks_by_token unique (instance_key, token)
);

create index tasks_by_tenant on shardclock.tasks (tenant_id, task_key);

comment on table shardclock.tasks is 'What instances wait for that persons do.';
comment on column shardclock.tasks.completed_at is 'When somebody completed it; its instance goes on soon. Null: it is open.';

create table shardclock.task_acts (
    act_id bigint generated always as identity,
    task_key bigint not null,
    instance_key bigint not null,
    acted_at timestamptz not null default clock_timestamp(),
    act text not null,
    who text not null,
    detail jsonb not null default '{}',

    constraint task_acts_pkey primary key (act_id),
    constraint act_is_known check (act in ('CREATED', 'ASSIGNED', 'COMPLETED', 'CANCELED'))
);

create index task_acts_by_task on shardclock.task_acts (task_key, act_id);
create index task_acts_by_instance on shardclock.task_acts (instance_key);

comment on table shardclock.task_acts is 'What became of tasks; rows are only added.';
comment on column shardclock.task_acts.who is 'The role that acted, or engine.';

-- The signals of all instances, and the jobs of service tasks by instance. Other deliveries are in neither.
create index deliveries_of_processes on shardclock.deliveries (next_attempt_at, timer_key)
where target = 'process:instance';
create index deliveries_of_children on shardclock.deliveries (name)
where target = 'process:instance' and name is not null;
create index deliveries_of_service_tasks on shardclock.deliveries (process_instance_key, element_instance_key)
where timer_type = 'SERVICE_TASK';

insert into shardclock.scale (role, wanted) values ('engine', 1);

-- A signal's label among the targets.
create or replace function shardclock.kind_of_target(target text)
returns text
language sql
immutable
begin atomic
    select case
        when target = 'log' then 'log'
        when target like 'webhook:%' then 'webhook'
        when target = 'process:instance' then 'process'
        else 'handler'
    end;
end;

comment on function shardclock.kind_of_target is
    'Internal: Says whether a target is the log, a handler, a webhook or an instance of a process.';

-- Sends a signal to an instance (null: to a new one), in the caller's transaction; returns its key.
create function shardclock.send_signal(
    instance_key bigint, tenant_id text, signal jsonb, token bigint default null, node_id text default null
)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    if octet_length(signal::text) > 1048576 then
        raise exception 'variables have % bytes: the limit is 1048576 (1 MiB)', octet_length(signal::text)
            using errcode = 'invalid_parameter_value';
    end if;
    loop
        insert into shardclock.deliveries (
            timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence,
            slot, tenant_id, timer_type, target, target_element_id, payload
        )
        select
            k.key, send_signal.instance_key, token, now(), now(), now(), 1,
            coalesce(send_signal.instance_key, k.key) % 840, tenant_id, 'USER', 'process:instance', node_id, signal
        from nextval('shardclock.timer_key_seq') as k (key)
        on conflict do nothing
        returning timer_key into key;
        exit when key is not null;
        perform shardclock.advance_keys();
    end loop;
    return key;
end
$$;

comment on function shardclock.send_signal is 'Internal: Sends a signal to an instance of a process.';

-- Refuses what is no object of variables.
create function shardclock.check_variables(variables jsonb)
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
end
$$;

comment on function shardclock.check_variables is 'Internal: Refuses variables that are no JSON object.';

-- Schedules the start timers of a definition, and subscribes its other start events.
create function shardclock.open_starts(definition_key bigint, again boolean default false)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    d shardclock.definitions;
begin
    select f.* into d from shardclock.definitions f where f.definition_key = open_starts.definition_key;
    insert into shardclock.timers (
        due_date, anchor, anchor_occurrence, repetitions, tenant_id, timer_type, target, target_element_id, zone, missed,
        name, schedule, payload
    )
    select
        -- A shard plans a schedule, which is due at once until then, and does not fire.
        coalesce((s.start ->> 'due_date')::timestamptz, now()),
        case when s.start ->> 'schedule' is not null then now() end,
        case when s.start ->> 'schedule' is null then 0 end,
        case when s.start ->> 'schedule' is null then 1 else -1 end,
        d.tenant_id, 'START_EVENT', 'process:instance', s.start ->> 'node_id',
        case when s.start ->> 'schedule' is not null then coalesce(s.start ->> 'zone', 'UTC') end,
        case when s.start ->> 'schedule' is not null then 'fire_once' end,
        'start:' || d.definition_key || ':' || s.number, s.start ->> 'schedule',
        jsonb_build_object('kind', 'begin', 'definition', d.definition_key)
    from jsonb_array_elements(d.starts) with ordinality as s (start, number)
    where s.start ->> 'kind' = 'timer'
        -- A date that has passed has begun its instance, when the definition was the newest before.
        and (not again or s.start ->> 'schedule' is not null or (s.start ->> 'due_date')::timestamptz > now());
    insert into shardclock.subscriptions (definition_key, is_once, kind, tenant_id, name, process_id, node_id)
    select d.definition_key, false, s.start ->> 'kind', d.tenant_id, s.start ->> 'name', d.process_id, s.start ->> 'node_id'
    from jsonb_array_elements(d.starts) as s (start)
    where s.start ->> 'kind' <> 'timer';
end
$$;

comment on function shardclock.open_starts is 'Internal: Lets the start events of a definition wait.';

create function shardclock.close_starts(definition_key bigint)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    keys bigint[];
begin
    -- A schedule that fires at this moment has another key afterwards: look again until there is none.
    loop
        keys := array(
            select t.timer_key
            from shardclock.definitions d
            cross join lateral jsonb_array_elements(d.starts) with ordinality as s (start, number)
            join shardclock.timers t
                on t.tenant_id = d.tenant_id and t.name = 'start:' || d.definition_key || ':' || s.number
            where d.definition_key = close_starts.definition_key
        );
        exit when keys = '{}';
        perform shardclock.cancel_timers(keys, reason => 'its definition was replaced or deleted');
    end loop;
    delete from shardclock.subscriptions s where s.definition_key = close_starts.definition_key;
end
$$;

comment on function shardclock.close_starts is 'Internal: Lets the start events of a definition wait no more.';

-- The newest version of a process that has not been deleted, or the version that is named.
create function shardclock.find_definition(tenant_id text, process_id text, version integer default null)
returns bigint
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    select d.definition_key into key
    from shardclock.definitions d
    where d.tenant_id = find_definition.tenant_id
        and d.process_id = find_definition.process_id
        and d.deleted_at is null
        and (find_definition.version is null or d.version = find_definition.version)
    order by d.version desc
    limit 1;
    return key;
end
$$;

comment on function shardclock.find_definition is 'Internal: Finds the newest version of a process, or the one that is named.';

-- Deploys the processes of a model that the caller has read and found to be right. `said` is an array of
-- {process_id, name, starts}.
create function shardclock.deploy_model(
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
            definition_key, tenant_id, process_id, version, name, resource, digest, model, starts
        )
        values (
            deploy_model.definition_key, deploy_model.tenant_id, deploy_model.process_id, deploy_model.version,
            one ->> 'name', deploy_model.resource, deploy_model.digest, deploy_model.model, one -> 'starts'
        );
        if latest.definition_key is not null then
            perform shardclock.close_starts(latest.definition_key);
        end if;
        perform shardclock.open_starts(definition_key);
        return next;
    end loop;
end
$$;

comment on function shardclock.deploy_model is 'Internal: Deploys a model that was found to be right.';

create function shardclock.delete_definition(definition_key bigint, tenant_id text default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    d shardclock.definitions;
    latest bigint;
begin
    select f.* into d
    from shardclock.definitions f
    where f.definition_key = delete_definition.definition_key
        and (delete_definition.tenant_id is null or f.tenant_id = delete_definition.tenant_id);
    if not found then
        return 'NOT_FOUND';
    end if;
    perform pg_advisory_xact_lock(hashtextextended(d.tenant_id || ' ' || d.process_id, 18));
    latest := shardclock.find_definition(d.tenant_id, d.process_id);
    update shardclock.definitions f
    set deleted_at = now()
    where f.definition_key = d.definition_key and f.deleted_at is null;
    if not found then
        return 'NOT_FOUND';
    end if;
    if latest = d.definition_key then
        perform shardclock.close_starts(latest);
        latest := shardclock.find_definition(d.tenant_id, d.process_id);
        if latest is not null then
            perform shardclock.open_starts(latest, again => true);
        end if;
    end if;
    return 'DELETED';
end
$$;

comment on function shardclock.delete_definition is $$Deletes one version of a process. Its instances go on, and none
begins any more. If it was the newest version, the start events of the one before it wait again.

definition_key: the key of the version
tenant_id: refuse a definition of another tenant; null: of any
returns: DELETED, or NOT_FOUND
errors: none
example: select shardclock.delete_definition(7);
$$;

create function shardclock.start_process(
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
        where s.tenant_id = start_process.tenant_id and s.idempotency_key = start_process.idempotency_key;
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
        values (start_process.tenant_id, start_process.idempotency_key, start_process.process_id, key);
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
errors: P0002 for a process or a version that is not deployed; 22023 for variables that are no object or have more than 1 MiB, or a key that has started another process
example: select shardclock.start_process('order', variables => '{"order": 42}', idempotency_key => 'order-42');
$$;

-- Finds an instance that runs, or whose beginning waits for an engine; returns its tenant, null if there is none.
create function shardclock.tenant_of_instance(instance_key bigint, tenant_id text)
returns text
language sql
stable
begin atomic
    select s.tenant_id
    from (
        select i.tenant_id
        from shardclock.instances i
        where i.instance_key = tenant_of_instance.instance_key and i.ended_at is null
        union all
        select d.tenant_id
        from shardclock.deliveries d
        where d.timer_key = tenant_of_instance.instance_key
            and d.target = 'process:instance' and d.process_instance_key is null
    ) s
    where tenant_of_instance.tenant_id is null or s.tenant_id = tenant_of_instance.tenant_id
    limit 1;
end;

comment on function shardclock.tenant_of_instance is 'Internal: Tells whose a running instance is.';

create function shardclock.signal_instance(instance_key bigint, tenant_id text, signal jsonb, token bigint default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    owner text := shardclock.tenant_of_instance(instance_key, tenant_id);
begin
    if owner is null then
        return 'NOT_FOUND';
    end if;
    perform shardclock.send_signal(instance_key, owner, signal, token);
    return 'SENT';
end
$$;

comment on function shardclock.signal_instance is 'Internal: Sends a signal to an instance if it runs.';

create function shardclock.cancel_instance(instance_key bigint, tenant_id text default null)
returns text
language sql
set search_path = pg_catalog, pg_temp
as $$
    select shardclock.signal_instance(instance_key, tenant_id, '{"kind": "cancel"}')
$$;

comment on function shardclock.cancel_instance is $$Cancels an instance of a process, in the caller's transaction: an
engine terminates its tokens, and its timers, jobs, tasks and called processes with them.

instance_key: the instance
tenant_id: refuse an instance of another tenant; null: of any
returns: SENT, or NOT_FOUND if it has ended or never was
errors: none
example: select shardclock.cancel_instance(42);
$$;

create function shardclock.set_variables(
    instance_key bigint, variables jsonb, token bigint default 1, tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
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
variables: a JSON object; variables that it does not name stay
token: whose variables; 1: those of the process
tenant_id: refuse an instance of another tenant; null: of any
returns: SENT, or NOT_FOUND if it has ended or never was
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.set_variables(42, '{"paid": true}');
$$;

create function shardclock.resolve_incident(instance_key bigint, token bigint, tenant_id text default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    signal bigint;
    has_stopped boolean;
begin
    select max(i.signal_key), bool_or(i.signal_key = 0) into signal, has_stopped
    from shardclock.incidents i
    where i.instance_key = resolve_incident.instance_key and i.token = resolve_incident.token;
    if signal is null then
        return 'NOT_FOUND';
    end if;
    if not has_stopped then
        raise exception 'the incident of token % is a signal that no engine could take: send it again (shardclock dead-letters redrive %)',
            token, signal
            using errcode = 'invalid_parameter_value';
    end if;
    return shardclock.signal_instance(instance_key, tenant_id, '{"kind": "retried"}', token);
end
$$;

comment on function shardclock.resolve_incident is $$Resolves an incident: the token goes on where it stopped.

instance_key: the instance
token: the token that stopped
tenant_id: refuse an instance of another tenant; null: of any
returns: SENT, or NOT_FOUND if there is no such incident
errors: 22023 for an incident that is a dead letter: that is redriven
example: select shardclock.resolve_incident(42, 3);
$$;

create function shardclock.move_tokens(
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

comment on function shardclock.move_tokens is $$Moves tokens of an instance by hand: some are terminated, and others begin
at the nodes that are named. All of it happens, or nothing, if a token or a node is not there.

instance_key: the instance
terminated: tokens that end
begun: ids of nodes at which tokens begin
tenant_id: refuse an instance of another tenant; null: of any
returns: SENT, or NOT_FOUND if it has ended or never was
errors: none
example: select shardclock.move_tokens(42, terminated => '{3}', begun => '{ship}');
$$;

create function shardclock.claim_task(
    task_key bigint, assignee text, tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    before text;
begin
    select t.assignee into before
    from shardclock.tasks t
    where t.task_key = claim_task.task_key and t.completed_at is null
        and (claim_task.tenant_id is null or t.tenant_id = claim_task.tenant_id)
    for update;
    if not found then
        return 'NOT_FOUND';
    end if;
    if before is not null and claim_task.assignee is not null and before <> claim_task.assignee then
        return 'TAKEN';
    end if;
    update shardclock.tasks t set assignee = claim_task.assignee where t.task_key = claim_task.task_key;
    insert into shardclock.task_acts (task_key, instance_key, act, who, detail)
    select t.task_key, t.instance_key, 'ASSIGNED', session_user, jsonb_build_object('assignee', t.assignee)
    from shardclock.tasks t
    where t.task_key = claim_task.task_key;
    return 'ASSIGNED';
end
$$;

comment on function shardclock.claim_task is $$Gives a task to a person, unless another has it.

task_key: the task
assignee: the person; null: give it back
tenant_id: refuse a task of another tenant; null: of any
returns: ASSIGNED; TAKEN if another person has it; NOT_FOUND if it is completed or never was
errors: none
example: select shardclock.claim_task(42, 'ann');
$$;

create function shardclock.complete_task(
    task_key bigint, variables jsonb default '{}', tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    task shardclock.tasks;
begin
    perform shardclock.check_variables(variables);
    update shardclock.tasks t
    set completed_at = now()
    where t.task_key = complete_task.task_key and t.completed_at is null
        and (complete_task.tenant_id is null or t.tenant_id = complete_task.tenant_id)
    returning t.* into task;
    if not found then
        return 'NOT_FOUND';
    end if;
    perform shardclock.send_signal(
        task.instance_key, task.tenant_id, jsonb_build_object('kind', 'completed', 'variables', variables), task.token
    );
    insert into shardclock.task_acts (task_key, instance_key, act, who)
    values (task.task_key, task.instance_key, 'COMPLETED', session_user);
    return 'COMPLETED';
end
$$;

comment on function shardclock.complete_task is $$Completes a task, in the caller's transaction: its instance goes on once
that is committed.

task_key: the task
variables: a JSON object, what the task results in
tenant_id: refuse a task of another tenant; null: of any
returns: COMPLETED, or NOT_FOUND if it is completed already or never was
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.complete_task(42, '{"approved": true}');
$$;

-- Of each name and key, only one at a time publishes a message, or looks for one that a token waits for.
create function shardclock.lock_message(tenant_id text, name text, correlation text)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    select pg_advisory_xact_lock(hashtextextended(tenant_id || ' ' || name || ' ' || correlation, 19))
$$;

comment on function shardclock.lock_message is 'Internal: Waits for others that correlate messages of this name and key.';

create function shardclock.publish_message(
    name text,
    correlation text default '',
    variables jsonb default '{}',
    tenant_id text default 'default',
    time_to_live interval default '0'
)
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    message bigint := nextval('shardclock.timer_key_seq');
    got record;
    reached text[] := '{}';
    waiting bigint[];
    signal jsonb := jsonb_build_object('kind', 'happened', 'variables', variables);
begin
    perform shardclock.check_variables(variables);
    perform shardclock.lock_message(tenant_id, name, correlation);
    loop
        -- A subscription may go while we wait for its row. Then the next one of its process is found in the next round.
        waiting := array(
            select f.subscription_key
            from (
                select distinct on (w.process_id) w.subscription_key
                from shardclock.subscriptions w
                where w.kind = 'message' and w.tenant_id = publish_message.tenant_id
                    and w.name = publish_message.name and w.correlation = publish_message.correlation
                    and w.taken_by is null and w.instance_key is not null and w.process_id <> all (reached)
                order by w.process_id, w.opened_at
            ) f
        );
        exit when waiting = '{}';
        for got in
            update shardclock.subscriptions s
            set taken_by = case when s.is_once then message end
            where s.subscription_key = any (waiting) and s.taken_by is null
            returning s.*
        loop
            perform shardclock.send_signal(got.instance_key, got.tenant_id, signal, got.token, got.node_id);
            reached := reached || got.process_id;
            return next got.instance_key;
        end loop;
    end loop;
    for got in
        select s.*
        from shardclock.subscriptions s
        where s.kind = 'message' and s.tenant_id = publish_message.tenant_id and s.name = publish_message.name
            and s.definition_key is not null and s.process_id <> all (reached)
    loop
        reached := reached || got.process_id;
        return next shardclock.send_signal(
            null, got.tenant_id,
            signal || jsonb_build_object('kind', 'begin', 'definition', got.definition_key), null, got.node_id
        );
    end loop;
    if time_to_live > interval '0' then
        insert into shardclock.messages (
            message_key, expires_at, tenant_id, name, correlation, correlated, variables
        )
        values (
            message, now() + time_to_live, publish_message.tenant_id, publish_message.name,
            publish_message.correlation, reached, publish_message.variables
        );
    end if;
end
$$;

comment on function shardclock.publish_message is $$Publishes a message, in the caller's transaction. Of each process, the
token that waits longest for the name and the correlation key gets it; if none waits, a message start event begins an
instance. With a time to live, the message is kept for that long, for
tokens that come later.

name: the message's name, as in the model
correlation: the key that the waiting token's expression must have found
variables: a JSON object, which the token gets
tenant_id: whose processes
time_to_live: how long it is kept; 0: it is for those who wait now
returns: the keys of the instances that get it now; none: nobody waits
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.publish_message('paid', correlation => '42', time_to_live => 'PT1H');
$$;

-- Gives waiting tokens of these instances the messages that came before them.
create function shardclock.correlate_waiting(instance_keys bigint[])
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    waiting record;
    found_message shardclock.messages;
    given integer := 0;
begin
    for waiting in
        select s.*
        from shardclock.subscriptions s
        where s.instance_key = any (instance_keys) and s.kind = 'message' and s.taken_by is null
        order by s.tenant_id, s.name, s.correlation, s.opened_at
    loop
        -- Whoever publishes this message now may not commit for long: it is looked for again a little later.
        continue when not pg_try_advisory_xact_lock(
            hashtextextended(waiting.tenant_id || ' ' || waiting.name || ' ' || waiting.correlation, 19)
        );
        -- A statement of its own, so that it sees what was committed while we waited for the lock.
        select m.* into found_message
        from shardclock.messages m
        where m.tenant_id = waiting.tenant_id and m.name = waiting.name and m.correlation = waiting.correlation
            and m.expires_at > now() and waiting.process_id <> all (m.correlated)
        order by m.message_key
        limit 1;
        continue when not found;
        update shardclock.subscriptions s
        set taken_by = case when s.is_once then found_message.message_key end
        where s.subscription_key = waiting.subscription_key and s.taken_by is null;
        continue when not found;
        update shardclock.messages m
        set correlated = m.correlated || waiting.process_id
        where m.message_key = found_message.message_key;
        perform shardclock.send_signal(
            waiting.instance_key, waiting.tenant_id,
            jsonb_build_object('kind', 'happened', 'variables', found_message.variables), waiting.token, waiting.node_id
        );
        given := given + 1;
    end loop;
    return given;
end
$$;

comment on function shardclock.correlate_waiting is
    'Internal: Gives tokens that have come to wait the messages that were published before.';

create function shardclock.throw_signal(name text, variables jsonb default '{}', tenant_id text default 'default')
returns setof bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    got record;
begin
    perform shardclock.check_variables(variables);
    for got in
        select s.*
        from shardclock.subscriptions s
        where s.kind = 'signal' and s.tenant_id = throw_signal.tenant_id and s.name = throw_signal.name
        order by s.instance_key, s.token
    loop
        if got.instance_key is null then
            return next shardclock.send_signal(
                null, got.tenant_id,
                jsonb_build_object('kind', 'begin', 'definition', got.definition_key, 'variables', variables),
                null, got.node_id
            );
        else
            perform shardclock.send_signal(
                got.instance_key, got.tenant_id, jsonb_build_object('kind', 'happened', 'variables', variables),
                got.token, got.node_id
            );
            return next got.instance_key;
        end if;
    end loop;
end
$$;

comment on function shardclock.throw_signal is $$Throws a signal, in the caller's transaction: whoever waits for it now gets
it, and signal start events begin instances.

name: the signal's name, as in the model
variables: a JSON object, which all of them get
tenant_id: whose processes
returns: the keys of the instances that get it; none: nobody waits
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.throw_signal('stop-all');
$$;

-- A client names no process as its target; what lets an instance wait writes its timers itself.
create or replace function shardclock.named_target(wanted shardclock.timers, before shardclock.timers)
returns text
language sql
immutable
begin atomic
    select case
        when wanted.target in ('log', 'process:instance') or wanted.target = before.target then null
        when before.target is not null or wanted.occurrence = 1 then wanted.target
    end;
end;

create or replace function shardclock.cancel_delivery(timer_key bigint, reason text default null)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    state text := shardclock.lock_delivery(cancel_delivery.timer_key);
    job text;
    instance bigint;
begin
    if state <> 'WAITING' then
        return state;
    end if;
    select substr(d.target, 5) into job
    from shardclock.deliveries d
    where d.timer_key = cancel_delivery.timer_key and d.target like 'job:%';
    if found then
        -- The job's row knows of this start, and the end of a run plans the next one.
        raise exception 'the delivery of timer % is a start of job "%": disable the job (shardclock jobs disable)',
            cancel_delivery.timer_key, job
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    select coalesce(d.process_instance_key, d.timer_key) into instance
    from shardclock.deliveries d
    where d.timer_key = cancel_delivery.timer_key
        and (d.target = 'process:instance' or d.timer_type = 'SERVICE_TASK');
    if found then
        -- A token waits for it.
        raise exception 'the delivery of timer % belongs to instance %: cancel that (shardclock processes cancel), or move its token',
            cancel_delivery.timer_key, instance
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    with gone as (
        delete from shardclock.deliveries d
        where d.timer_key = cancel_delivery.timer_key
        returning d.*
    )
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, target_element_id, name, schedule, detail
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, g.due_date, g.created_at, g.occurrence,
        'DISCARDED', g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule,
        jsonb_strip_nulls(jsonb_build_object('by', session_user, 'reason', cancel_delivery.reason))
    from gone g;
    return 'DISCARDED';
end
$$;

comment on function shardclock.cancel_delivery is $$Ends a delivery that waits: its target is not called any more, and its
record says who did it. One that a worker has in hand is left as it is.

timer_key: the timer that fired
reason: why, for the record
returns: DISCARDED (also if it was before); IN_HAND: a worker is calling the target; DEAD: it was given up; DELIVERED: it has ended; UNKNOWN: it has no delivery
errors: 55000 for a start of a job, and for what an instance of a process waits for; 42501 without a right on shardclock.deliveries
example: select shardclock.cancel_delivery(42, reason => 'refunded by hand');
$$;

-- Service tasks that a program of the user's own does, instead of a handler. It takes them under a lease, and answers
-- with the number of its claim: an answer to an older claim changes nothing. No holder has such a claim, so it is 0.
create function shardclock.activate_service_tasks(
    task_type text, most integer default 10, lease interval default 'PT1M', tenant_id text default 'default'
)
returns table (
    task_key bigint, claim integer, instance_key bigint, token bigint, node_id text, failed_attempts integer,
    variables jsonb
)
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    if most is null or most not between 1 and 1000 then
        raise exception 'most % is not possible: take 1 to 1000', most using errcode = 'invalid_parameter_value';
    end if;
    if lease is null or lease < interval '1 s' or lease > interval '1 day' then
        raise exception 'lease % is not possible: give a second to a day', lease
            using errcode = 'invalid_parameter_value';
    end if;
    return query
    update shardclock.deliveries d
    set claimed_by = 0, claimed_until = clock_timestamp() + lease, claims = d.claims + 1
    where d.timer_key = any (
        array(
            select f.timer_key
            from shardclock.deliveries f
            where f.target = task_type
                and f.tenant_id = activate_service_tasks.tenant_id
                and f.timer_type = 'SERVICE_TASK'
                and f.next_attempt_at <= now()
                and (f.claimed_until is null or f.claimed_until < clock_timestamp())
            order by f.next_attempt_at, f.timer_key
            limit most
            for update skip locked
        )
    )
    returning
        d.timer_key, d.claims, d.process_instance_key, d.element_instance_key, d.target_element_id, d.failed_attempts,
        d.payload;
end
$$;

comment on function shardclock.activate_service_tasks is $$Takes service tasks of a type for a program that does them
itself. They are its own until the lease has run out; then anybody may take them again.

task_type: the type in the model; no handler of an app may have the same name
most: how many at most, 1 to 1000
lease: for how long, a second to a day
tenant_id: whose
returns: task_key and claim, which an answer names; instance_key, token and node_id; failed_attempts; variables, with the task's headers
errors: 22023 for a number or a lease that is not possible
example: select task_key, claim, variables from shardclock.activate_service_tasks('order.pack', most => 5, lease => 'PT30S');
$$;

-- Takes a service task away that is leased under this claim, records how it ended, and signals its instance.
create function shardclock.end_service_task(
    task_key bigint, claim integer, tenant_id text, intent text, detail jsonb, signal jsonb
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    task shardclock.deliveries;
begin
    delete from shardclock.deliveries d
    where d.timer_key = task_key and d.claims = claim and d.claimed_by = 0 and d.timer_type = 'SERVICE_TASK'
        and (end_service_task.tenant_id is null or d.tenant_id = end_service_task.tenant_id)
    returning d.* into task;
    if not found then
        return 'NOT_FOUND';
    end if;
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, intent, tenant_id,
        timer_type, target, target_element_id, detail
    )
    values (
        task.timer_key, task.process_instance_key, task.element_instance_key, task.due_date, task.created_at,
        task.occurrence, end_service_task.intent, task.tenant_id, task.timer_type, task.target, task.target_element_id,
        jsonb_strip_nulls(
            end_service_task.detail
                || jsonb_build_object('attempt', task.failed_attempts + 1, 'by', session_user)
        )
    );
    perform shardclock.send_signal(
        task.process_instance_key, task.tenant_id, end_service_task.signal, task.element_instance_key,
        task.target_element_id
    );
    return end_service_task.intent;
end
$$;

comment on function shardclock.end_service_task is 'Internal: Ends a service task that a program has done, or given up.';

create function shardclock.complete_service_task(
    task_key bigint, claim integer, variables jsonb default '{}', tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.check_variables(variables);
    return shardclock.end_service_task(
        task_key, claim, tenant_id, 'DELIVERED', '{}', jsonb_build_object('kind', 'completed', 'variables', variables)
    );
end
$$;

comment on function shardclock.complete_service_task is $$Completes a service task that the caller has taken; its instance
goes on.

task_key: the task
claim: as it was taken
variables: a JSON object, what the task results in
tenant_id: refuse a task of another tenant; null: of any
returns: DELIVERED, or NOT_FOUND if its lease ran out and another has taken it, or if it has ended
errors: 22023 for variables that are no object or have more than 1 MiB
example: select shardclock.complete_service_task(42, 1, '{"packed": true}');
$$;

create function shardclock.fail_service_task(
    task_key bigint,
    claim integer,
    reason text,
    retries integer default 0,
    retry_after interval default '0',
    tenant_id text default null
)
returns text
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(retries, 0) <= 0 then
        return shardclock.end_service_task(
            task_key, claim, tenant_id, 'DEAD', jsonb_build_object('reason', reason),
            jsonb_build_object('kind', 'failed', 'reason', coalesce(reason, 'no reason was given'))
        );
    end if;
    update shardclock.deliveries d
    set claimed_by = null,
        claimed_until = null,
        failed_attempts = d.failed_attempts + 1,
        next_attempt_at = now() + retry_after,
        failures = shardclock.with_failure(d.failures, d.failed_attempts + 1, reason, 0, now())
    where d.timer_key = task_key and d.claims = claim and d.claimed_by = 0 and d.timer_type = 'SERVICE_TASK'
        and (fail_service_task.tenant_id is null or d.tenant_id = fail_service_task.tenant_id);
    return case when found then 'RETRIED' else 'NOT_FOUND' end;
end
$$;

comment on function shardclock.fail_service_task is $$Says that a service task that the caller has taken could not be done.

task_key: the task
claim: as it was taken
reason: why, in a sentence
retries: how many further attempts there may be; 0: none, so its instance has an incident
retry_after: when the next attempt may be made
tenant_id: refuse a task of another tenant; null: of any
returns: RETRIED; DEAD if there is no further attempt; NOT_FOUND as for complete_service_task
errors: none
example: select shardclock.fail_service_task(42, 1, 'no box is left', retries => 2, retry_after => 'PT5M');
$$;

create function shardclock.throw_service_task_error(
    task_key bigint, claim integer, code text, reason text default null, variables jsonb default '{}',
    tenant_id text default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.check_variables(variables);
    if code is null or length(code) not between 1 and 200 then
        raise exception 'code "%" is refused: give 1 to 200 characters', left(code, 60)
            using errcode = 'invalid_parameter_value';
    end if;
    return shardclock.end_service_task(
        task_key, claim, tenant_id, 'DISCARDED', jsonb_build_object('reason', reason),
        jsonb_build_object('kind', 'error', 'code', code, 'reason', coalesce(reason, ''), 'variables', variables)
    );
end
$$;

comment on function shardclock.throw_service_task_error is $$Ends a service task with an error of BPMN. An event in the
model may catch the error by its code. The caller must have taken the task.

task_key: the task
claim: as it was taken
code: the error's code, as in the model
reason: why, in a sentence
variables: a JSON object, which the event gets
tenant_id: refuse a task of another tenant; null: of any
returns: DISCARDED, or NOT_FOUND as for complete_service_task
errors: 22023 for a code that is none, and as for complete_service_task
example: select shardclock.throw_service_task_error(42, 1, 'OUT_OF_STOCK');
$$;
