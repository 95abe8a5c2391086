-- Processes: deployed models, their instances, and the messages, signals and tasks for which instances wait.
--
-- A signal to an instance is a delivery with the target `process:instance`. When a timer of an instance fires, the
-- firing writes a signal. A client sends a signal when it completes a task, publishes a message or cancels an instance.
-- An engine takes the signals of its slots, advances their instances, and writes the results in one statement
-- (sql/processes/apply_steps.sql). A delivery's process_instance_key is the instance (null: its own timer_key becomes
-- the key of a new instance), element_instance_key the token, target_element_id the node that waits, and payload the
-- signal.
--
-- needs: check_definition, forget_business_keys, check_kept_message, note_key_prefix, note_event

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
    starts_by_hand boolean not null default true,

    constraint definitions_pkey primary key (definition_key),
    constraint tenant_id_is_1_to_200_characters check (length(tenant_id) between 1 and 200),
    constraint process_id_is_1_to_200_characters check (length(process_id) between 1 and 200),
    constraint model_is_at_most_4_mib check (octet_length(model) <= 4194304),
    constraint digest_is_of_sha256 check (octet_length(digest) = 32)
);

create unique index definitions_by_process on shardclock.definitions (tenant_id, process_id, version);

comment on table shardclock.definitions is
    'All versions of the deployed processes; an instance never changes its version.';
comment on column shardclock.definitions.resource is 'The name of the deployed file.';
comment on column shardclock.definitions.digest is 'SHA-256 of the model.';
comment on column shardclock.definitions.model is 'The BPMN file; it may have several processes.';
comment on column shardclock.definitions.starts is
    'The start events with a trigger: an array of {node_id, kind: timer, message or signal, and due_date, schedule or name}.';
comment on column shardclock.definitions.deleted_at is
    'The time at which the version was deleted; then no new instance begins, and running instances continue. Null: the version is not deleted.';
comment on column shardclock.definitions.starts_by_hand is
    'Whether the process has a start event without a trigger; false: only the events in `starts` begin an instance.';

create trigger definitions_check_quota before insert on shardclock.definitions
for each row execute function shardclock.check_definition();

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
    -- The root is the instance without a parent above a called instance; null for the root itself. An engine counts the
    -- called instances below a root that are live or about to begin.
    root_key bigint,

    constraint instances_pkey primary key (instance_key),
    constraint parent_is_whole check ((parent_key is null) = (parent_token is null)),
    constraint outcome_is_known check (outcome in ('COMPLETED', 'CANCELED', 'ERROR')),
    constraint end_is_whole check (num_nonnulls(ended_at, outcome) in (0, 2) and (ended_at is null) = (state is not null))
)
-- Each step updates the instance's row, and only the last step updates an indexed column; with free space in each page,
-- these updates are heap-only.
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index instances_by_process on shardclock.instances (tenant_id, process_id, instance_key);

create index instances_by_parent on shardclock.instances (parent_key, parent_token) where parent_key is not null;

create index instances_by_end on shardclock.instances (ended_at) where ended_at is not null;

-- Few instances end with another outcome than COMPLETED. With this index, a list of these instances reads no other
-- instances and no other tenants. The key is an expression, so that a search by key does not use the index:
-- docs/decisions/0005-queue-plans.md. The condition is written so that the planner expects it to exclude no row. With a
-- plain condition, the planner would count the filter by outcome twice, expect only a few rows, and sort all rows.
create index instances_by_outcome on shardclock.instances (tenant_id, outcome, (instance_key + 0))
where coalesce(outcome, 'COMPLETED') <> 'COMPLETED';

-- This index is for counts and ordered lists of a version's running instances; they read no ended instances. The
-- unusual form of the condition lets only these statements use the index: a search for called instances, planned on an
-- empty table, might otherwise use it.
create index instances_running on shardclock.instances (definition_key, (instance_key + 0))
where (ended_at is null) is true;

create index instances_by_root on shardclock.instances (root_key)
    where (root_key is not null and ended_at is null) is true;

comment on table shardclock.instances is
    'Instances of processes: running instances, and instances that ended in the last days.';
comment on column shardclock.instances.parent_key is
    'The instance that started this instance by a call activity, at parent_token.';
comment on column shardclock.instances.version is
    'The number of steps: an engine that has read an older version writes nothing.';
comment on column shardclock.instances.outcome is
    'COMPLETED, CANCELED, or ERROR (the calling instance may catch the error); null: the instance has not ended.';
comment on column shardclock.instances.state is
    'The tokens and variables, in the engine''s format; null: the instance has ended.';
comment on column shardclock.instances.result is 'The variables of the process at its end.';

create trigger instances_forget_business_keys after delete on shardclock.instances
referencing old table as gone
for each statement execute function shardclock.forget_business_keys();

create table shardclock.process_starts (
    tenant_id text not null,
    idempotency_key text not null,
    process_id text not null,
    instance_key bigint not null,
    asked_at timestamptz not null default now(),
    -- Two starts with one idempotency key and different business keys are different starts. The business key is also
    -- stored here, because the instance and its business key may be deleted before the idempotency key is deleted.
    business_key text,

    constraint process_starts_pkey primary key (tenant_id, idempotency_key),
    constraint idempotency_key_is_1_to_255_characters check (length(idempotency_key) between 1 and 255)
);

create index process_starts_by_age on shardclock.process_starts (asked_at);

comment on table shardclock.process_starts is
    'Starts with an idempotency key; for a day, a repeated start with the same key returns the same instance.';
comment on column shardclock.process_starts.business_key is 'The business key of the start; null: none.';

-- A business key is the caller's own name for an instance, such as an order's number, for searches. Business keys have
-- a separate table, because each step writes the table of instances (docs/decisions/0062-business-keys.md).
create table shardclock.business_keys (
    instance_key bigint not null,
    tenant_id text not null,
    business_key text not null,

    constraint business_keys_pkey primary key (instance_key),
    constraint business_key_is_1_to_255_characters check (length(business_key) between 1 and 255)
);

-- The key comes before the tenant, because operators search without a tenant, too.
create index business_keys_by_key on shardclock.business_keys (business_key, tenant_id, (-instance_key));

comment on table shardclock.business_keys is
    'The callers'' own names for instances; a row is written with its instance''s start, and deleted with the instance.';
comment on column shardclock.business_keys.business_key is
    'The business key; several instances may have the same business key.';

create table shardclock.instance_steps (
    instance_key bigint not null,
    version bigint not null,
    stepped_at timestamptz not null default clock_timestamp(),
    holder bigint not null,
    signals jsonb not null,
    passes jsonb not null,

    constraint instance_steps_pkey primary key (instance_key, version)
);

comment on table shardclock.instance_steps is 'The history of instances, one row for each step.';
comment on column shardclock.instance_steps.holder is 'The engine that made the step.';
comment on column shardclock.instance_steps.signals is
    'The signals in their order, an array of {key, kind, token, node, stale}; a stale signal changed nothing.';
comment on column shardclock.instance_steps.passes is
    'The moves of tokens, an array of [token, node, entered, left or terminated].';

create table shardclock.incidents (
    instance_key bigint not null,
    token bigint not null,
    signal_key bigint not null default 0,
    node_id text not null,
    sentence text not null,
    raised_at timestamptz not null default clock_timestamp(),

    constraint incidents_pkey primary key (instance_key, token, signal_key)
);

comment on table shardclock.incidents is
    'Tokens that can''t continue until a person removes the cause and resolves the incident.';
comment on column shardclock.incidents.signal_key is
    'The dead letter of a signal that no engine could process; 0: the token itself has stopped.';

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

-- A signal may be thrown to many subscriptions. An engine sends the signal to one part of the subscriptions at a time,
-- in the order in which their waits began.
create index subscriptions_in_order on shardclock.subscriptions (tenant_id, name, (subscription_key + 0))
    where (kind = 'signal') is true;

comment on table shardclock.subscriptions is
    'The waits for messages and signals, by tokens of instances and by start events of definitions.';
comment on column shardclock.subscriptions.taken_by is
    'The message that was sent to the subscription and is not processed yet; null: no message.';
comment on column shardclock.subscriptions.is_once is 'Whether the first message ends the wait.';

create table shardclock.messages (
    message_key bigint not null,
    expires_at timestamptz not null,
    tenant_id text not null,
    name text not null,
    correlation text not null,
    correlated text[] not null default '{}',
    variables jsonb not null,
    -- Whether this stored message is correlated before newer messages, because it came back from a token that had
    -- ended, or because a newer message began an instance.
    passed_over boolean not null default false,

    constraint messages_pkey primary key (message_key)
);

create index messages_by_age on shardclock.messages (expires_at);

-- The key is an expression, for the same reason as in deliveries_by_lane.
create index messages_by_name on shardclock.messages (tenant_id, name, correlation, (message_key + 0));

create index messages_passed_over on shardclock.messages (tenant_id, name, correlation) where passed_over;

comment on table shardclock.messages is 'Messages that were published with a time to live, for tokens that wait later.';
comment on column shardclock.messages.correlated is
    'The processes that have got the message; each process gets the message once.';

create trigger messages_check_quota before insert on shardclock.messages
for each row execute function shardclock.check_kept_message();

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

-- This index finds the tasks of a person. The index leaves out tasks without an assignee, so that an engine's step does
-- not pay for it (docs/decisions/0063-task-lists-go-in-steps.md). The assignee comes first, because operators search
-- without a tenant, too.
create index tasks_by_assignee on shardclock.tasks (assignee, tenant_id, task_key) where assignee is not null;

comment on table shardclock.tasks is 'Tasks for people; the instance of an open task waits for its completion.';
comment on column shardclock.tasks.completed_at is
    'The time at which the task was completed. Null: the task is open.';

create table shardclock.task_acts (
    act_id bigint generated always as identity,
    task_key bigint not null,
    instance_key bigint not null,
    acted_at timestamptz not null default clock_timestamp(),
    act text not null,
    actor text not null,
    detail jsonb not null default '{}',

    constraint task_acts_pkey primary key (act_id),
    constraint act_is_known check (act in ('CREATED', 'ASSIGNED', 'COMPLETED', 'CANCELED'))
);

create index task_acts_by_task on shardclock.task_acts (task_key, act_id);

create index task_acts_by_instance on shardclock.task_acts (instance_key);

comment on table shardclock.task_acts is 'The acts on tasks; rows are only added.';
comment on column shardclock.task_acts.actor is 'The role that acted; engine: an engine acted.';

create trigger task_acts_note_key_prefix before insert on shardclock.task_acts
for each row when (current_setting('shardclock.key_prefix', true) <> '')
execute function shardclock.note_key_prefix();

-- This trigger writes events for operators: 0010_notify.sql.
create trigger note_incident after insert on shardclock.incidents for each row
execute function shardclock.note_event();
