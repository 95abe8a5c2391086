-- Targets of firings: handlers that an app declares, and endpoints of webhooks; the open deliveries to these targets;
-- and deliveries that were given up.
--
-- needs: note_event

create table shardclock.handlers (
    target text not null,
    reference text not null,
    policy jsonb not null,
    declared_at timestamptz not null default now(),
    withdrawn_at timestamptz,

    constraint handlers_pkey primary key (target),
    constraint target_is_a_handler check (target <> 'log' and target not like 'webhook:%'),
    constraint target_is_no_job check (target not like 'job:%'),
    constraint target_is_no_process check (target not like 'process:%')
);

comment on table shardclock.handlers is
    'The handlers that an app has declared; each is a target of timers.';
comment on column shardclock.handlers.reference is 'The function: package.module:function.';
comment on column shardclock.handlers.policy is
    'The limits of attempts and times of the handler''s calls, as the app declared them.';
comment on column shardclock.handlers.withdrawn_at is
    'The time at which the app was started without this handler: no new timer may name it; null: an app has it.';

create table shardclock.deliveries (
    timer_key bigint not null,
    process_instance_key bigint,
    element_instance_key bigint,
    next_attempt_at timestamptz not null,
    due_date timestamptz not null,
    created_at timestamptz not null,
    fired_at timestamptz not null default clock_timestamp(),
    redriven_at timestamptz,
    claimed_by bigint,
    claimed_until timestamptz,
    occurrence bigint not null,
    -- The number of claims by workers. A worker's outcome is valid only if there was no later claim.
    claims integer not null default 0,
    failed_attempts integer not null default 0,
    given_back integer not null default 0,
    slot smallint not null,
    tenant_id text not null,
    timer_type text not null,
    target text not null,
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,
    failures jsonb,
    attempts_max integer,
    -- Programs that claim service tasks use the columns worker and headers. Workers don't use them.
    worker text,
    headers jsonb,

    constraint deliveries_pkey primary key (timer_key),
    constraint claim_is_whole check ((claimed_by is null) = (claimed_until is null))
)
-- The table is a queue, like timers: 0001_timers.sql has the reasons. One difference: each row is claimed at least
-- once, and the rows of one page are claimed at nearly the same time. So each page has free space for new versions of
-- all its rows. The free space halves the cost of a claim, and saves 270 bytes of write-ahead log.
with (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

-- One scan of this index finds the due deliveries of all jobs. The index leaves out other deliveries.
create index deliveries_of_jobs on shardclock.deliveries (next_attempt_at, timer_key) where target like 'job:%';

-- Of the next two indexes, the first has only the signals of instances, the second only the deliveries of service
-- tasks.
create index deliveries_of_processes on shardclock.deliveries (next_attempt_at, timer_key)
where target = 'process:instance';

create index deliveries_of_service_tasks on shardclock.deliveries (process_instance_key, element_instance_key)
where timer_type = 'SERVICE_TASK';

-- This index finds the few deferred signals by instance: for each signal, sql/processes/read_due_signals.sql searches
-- for an earlier deferred signal of the instance. deliveries_failing does not fit this search: a plan that was made
-- before any failure would read all deferred signals.
create index deliveries_deferred on shardclock.deliveries ((coalesce(process_instance_key, timer_key)))
where (target = 'process:instance' and failed_attempts > 0) is true;

-- No other index fits the search for the called instances of a token. If two indexes fit, a plan that was made on empty
-- tables may use the wrong index, and then reads all waiting signals.
create index deliveries_of_children on shardclock.deliveries (name) where name like 'child:%';

-- Target and tenant come first, so that a scan for one target never reads the deliveries of a target that doesn't
-- answer. The key comes last, so that a claim can begin after the row at which the last claim ended.
--
-- The key is an expression, so that even an old plan searches for a row by its key in deliveries_pkey. If a table is
-- empty after a vacuum, the planner believes that the scan of a whole index is as cheap as a probe by the key. So in
-- the tables that are queues, no other index has the key as a column: docs/decisions/0005-queue-plans.md.
create index deliveries_by_lane on shardclock.deliveries (target, tenant_id, next_attempt_at, (timer_key + 0));

-- The index has only deliveries with a failed attempt. A claim changes no column of the index.
create index deliveries_failing on shardclock.deliveries (target, tenant_id, next_attempt_at, (timer_key + 0))
    where failed_attempts > 0;

-- The starts of instances that wait for an engine; dead_letters_of_starts_by_death has the starts that were given up.
create index deliveries_of_starts on shardclock.deliveries (tenant_id, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

-- An engine reads the cancellations of a tenant before all other signals of the tenant.
create index deliveries_of_cancellations on shardclock.deliveries (tenant_id, next_attempt_at, (timer_key + 0))
    where (target = 'process:instance' and payload ->> 'kind' = 'cancel') is true;

create index deliveries_by_root on shardclock.deliveries ((payload ->> 'root'))
    where (target = 'process:instance' and name like 'child:%' and length(payload ->> 'root') < 20) is true;

-- A thrown signal may reach its receivers in several batches. Each receiver gets signals of the same name in the order
-- in which they were thrown. The query for the first signal of a name needs this order; without the index, a plan could
-- read all of deliveries_by_lane. With this index, a query counts a tenant's unfinished signals without reading the
-- payloads of starts.
create index deliveries_of_throws on shardclock.deliveries (tenant_id, (payload ->> 'name'), (timer_key + 0))
    where (target = 'process:instance' and payload ->> 'kind' = 'thrown') is true;

-- With this index, a worker finds the endpoints with due deliveries, without probing each existing endpoint.
create index deliveries_of_endpoints on shardclock.deliveries (next_attempt_at, timer_key) where target like 'webhook:%';

-- Queued starts of a job begin in the order of their due dates, across the slots of all workers. A worker finds the
-- first start by this index: docs/decisions/0075-queues-keep-their-order.md.
create index deliveries_of_jobs_by_due_date on shardclock.deliveries (target, due_date, timer_key)
where target like 'job:%';

comment on table shardclock.deliveries is
    'Open deliveries: firings whose targets have not been called successfully yet. Ended deliveries are in shardclock.command_log, or in shardclock.dead_letters.';
comment on column shardclock.deliveries.timer_key is 'The key of the timer that fired; a firing has one delivery.';
comment on column shardclock.deliveries.next_attempt_at is 'The due time of the next attempt.';
comment on column shardclock.deliveries.fired_at is 'The time of the firing.';
comment on column shardclock.deliveries.redriven_at is
    'The time at which a redriven delivery is due again; null: the delivery was never redriven.';
comment on column shardclock.deliveries.claimed_by is
    'The holder (one incarnation of a worker) that has claimed the delivery until claimed_until.';
comment on column shardclock.deliveries.failed_attempts is 'The number of failed attempts.';
comment on column shardclock.deliveries.given_back is
    'The number of claims that workers have released without a call, for example at a drain.';
comment on column shardclock.deliveries.slot is
    'timer_key % 840; worker i of N keeps the slots with slot % N = i.';
comment on column shardclock.deliveries.failures is
    'The first three and the last seven failed attempts, an array of {at, attempt, reason, worker}, oldest first; null: no attempt has failed.';
comment on column shardclock.deliveries.attempts_max is
    'The limit of attempts in the model of a service task; null: the policy of its handler or endpoint has the limit.';
comment on column shardclock.deliveries.worker is
    'The name of the program that has claimed this service task; null: it gave no name. The program is not a holder.';
comment on column shardclock.deliveries.headers is
    'The headers from the model of a service task; the payload has these headers too, among the variables.';

create table shardclock.dead_letters (
    timer_key bigint not null,
    process_instance_key bigint,
    element_instance_key bigint,
    due_date timestamptz not null,
    created_at timestamptz not null,
    fired_at timestamptz not null,
    died_at timestamptz not null default clock_timestamp(),
    occurrence bigint not null,
    claims integer not null,
    failed_attempts integer not null,
    slot smallint not null,
    tenant_id text not null,
    timer_type text not null,
    target text not null,
    target_element_id text,
    name text,
    schedule text,
    reason text not null,
    payload jsonb,
    failures jsonb,

    constraint dead_letters_pkey primary key (timer_key)
);

create index dead_letters_by_target on shardclock.dead_letters (target, tenant_id, died_at);

-- With this index, the overview of dead letters finds each target of a tenant by one probe. The condition lets only the
-- overview use the index: a search for one target of all tenants might otherwise read the whole index, because it is
-- small.
create index dead_letters_by_tenant on shardclock.dead_letters (tenant_id, target) where (target > '') is true;

-- A redrive or a discard of many dead letters begins with the oldest, 10,000 at a time. Without this index each page
-- would sort all dead letters.
create index dead_letters_in_order on shardclock.dead_letters (died_at, (timer_key + 0));

-- Starts that were given up are listed among incidents, by time, and among the starting instances, by key. Each tenant
-- has a separate list. The unusual form of the condition lets only the statements for these two lists use the indexes:
-- a search by key, planned on an empty table, might otherwise use them.
create index dead_letters_of_starts_by_death on shardclock.dead_letters (tenant_id, died_at, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

create index dead_letters_of_starts on shardclock.dead_letters (tenant_id, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

create index dead_letters_of_throws on shardclock.dead_letters (tenant_id)
where (target = 'process:instance' and payload ->> 'kind' = 'thrown') is true;

comment on table shardclock.dead_letters is
    'Deliveries that were given up, until a client redrives or discards them.';
comment on column shardclock.dead_letters.died_at is 'The time at which the delivery was given up.';
comment on column shardclock.dead_letters.claims is
    'The number of claims by workers; after a redrive, the outcomes of these old claims must not count.';
comment on column shardclock.dead_letters.reason is 'The reason why the delivery was given up, in a sentence.';

-- The endpoints of tenants, to which webhooks are sent.
create table shardclock.endpoints (
    tenant_id text not null,
    name text not null,
    url text not null,
    headers jsonb not null default '{}',
    secrets text[] not null,
    policy jsonb not null default '{}',
    added_at timestamptz not null default now(),
    changed_at timestamptz not null default now(),
    disabled_at timestamptz,
    disabled_why text,

    constraint endpoints_pkey primary key (tenant_id, name),
    constraint name_is_a_word check (name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'),
    constraint url_is_short check (length(url) <= 2048),
    constraint headers_are_texts check (
        jsonb_typeof(headers) = 'object'
        and length(headers::text) <= 20000
        and not jsonb_path_exists(headers, 'strict $.keyvalue() ? (@.value.type() != "string")', '{}', true)
    ),
    constraint secrets_are_one_to_four check (
        array_ndims(secrets) = 1 and cardinality(secrets) between 1 and 4 and array_position(secrets, null) is null
    ),
    constraint policy_is_within_bounds check (
        jsonb_typeof(policy) = 'object'
        and length(policy::text) <= 2000
        and not jsonb_path_exists(policy, 'strict $.keyvalue() ? (
            (@.key == "max_attempts" || @.key == "concurrency") && (
                @.value.type() != "number" || @.value < 1 || @.value > 1000 || @.value.floor() != @.value
            )
            || @.key == "timeout_s" && (@.value.type() != "number" || @.value < 1 || @.value > 30)
            || @.key == "retry_min_s" && (@.value.type() != "number" || @.value < 0.001 || @.value > 86400)
            || @.key == "retry_max_s" && (@.value.type() != "number" || @.value < 0.001 || @.value > 2592000)
            || (@.key == "give_up_after_s" || @.key == "expires_after_s") && @.value.type() != "null" && (
                @.value.type() != "number" || @.value < 0.1 || @.value > 31536000
            )
            || @.key == "rate_per_s" && @.value.type() != "null" && (
                @.value.type() != "number" || @.value < 0.001 || @.value > 100000
            )
        )', '{}', true)
    ),
    constraint disabled_is_whole check ((disabled_at is null) = (disabled_why is null))
);

-- Each worker writes at most once a second, and deletes old rows beyond the limit. The table has no foreign key,
-- because the check of a foreign key would wait if an operator has locked the endpoint.
create table shardclock.endpoint_attempts (
    tenant_id text not null,
    name text not null,
    timer_key bigint not null,
    ended_at timestamptz not null,
    attempt integer not null,
    status integer,
    duration_ms integer not null,
    failure text,
    body text not null,

    constraint endpoint_attempts_pkey primary key (tenant_id, name, ended_at, timer_key)
);

comment on table shardclock.endpoint_attempts is
    'The last 20 attempts and the last 20 test sends of each endpoint; there may be more between two writes.';
comment on column shardclock.endpoint_attempts.name is 'The name of the endpoint.';
comment on column shardclock.endpoint_attempts.timer_key is 'The timer of the delivery; 0: a test send.';
comment on column shardclock.endpoint_attempts.attempt is
    'The number of the delivery''s attempt, from 1; 0: a test send.';
comment on column shardclock.endpoint_attempts.status is
    'The HTTP status of the response; null: there was no response.';
comment on column shardclock.endpoint_attempts.failure is
    'The reason why the attempt failed; null: the endpoint accepted the delivery.';
comment on column shardclock.endpoint_attempts.body is 'The first 2 KiB of the response''s body.';

comment on table shardclock.endpoints is
    'The endpoints of tenants; each is a target of its tenant''s timers, webhook:<name>.';
comment on column shardclock.endpoints.headers is
    'The headers that the tenant adds to each request: an object of texts.';
comment on column shardclock.endpoints.secrets is
    'The secrets that sign requests, newest first; during a rotation there are several secrets.';
comment on column shardclock.endpoints.policy is
    'The tenant''s values for attempts, timeout, concurrency and rate; a missing value has its default.';
comment on column shardclock.endpoints.disabled_at is
    'The time at which the endpoint was disabled (after a 410 response or by an operator): workers send no requests; null: the endpoint is enabled.';

-- These triggers write events for operators: 0010_notify.sql. A dead letter of an event does not write another event. A
-- dead letter of a signal to an instance writes no event here, because it also has an incident, which writes the event.
create trigger note_dead_letter after insert on shardclock.dead_letters for each row
when (
    new.target not like 'webhook:notify/%'
    and (new.target <> 'process:instance' or new.process_instance_key is null)
)
execute function shardclock.note_event();

create trigger note_disabled_endpoint after update of disabled_at on shardclock.endpoints for each row
when (old.disabled_at is null and new.disabled_at is not null) execute function shardclock.note_event();
