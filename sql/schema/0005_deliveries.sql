-- Targets of firings: handlers that an app declares and endpoints of webhooks, the deliveries on their way to them, and
-- deliveries that were given up.

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
comment on column shardclock.handlers.reference is 'Where the function is: package.module:function.';
comment on column shardclock.handlers.policy is 'How often and how long it is called, as the app declared it.';
comment on column shardclock.handlers.withdrawn_at is
    'When the app was started without this handler: no new timer may name it; null: it is there.';

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
    -- How often a worker has claimed it. A worker's answer counts only if there was no claim since.
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
    -- For programs that do service tasks. Workers neither read nor write these two columns.
    worker text,
    headers jsonb,

    constraint deliveries_pkey primary key (timer_key),
    constraint claim_is_whole check ((claimed_by is null) = (claimed_until is null))
)
-- A queue, like timers: 0001_timers.sql says why. But each row is claimed once at least, and all rows of a page at nearly
-- the same time: the room for all of them makes a claim cost half, and write 270 bytes less of write-ahead log.
with (
    fillfactor = 40,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

-- The due deliveries of all jobs in one scan. Other deliveries are not in it.
create index deliveries_of_jobs on shardclock.deliveries (next_attempt_at, timer_key) where target like 'job:%';

-- The signals of all instances, and the jobs of service tasks by instance. Other deliveries are in neither.
create index deliveries_of_processes on shardclock.deliveries (next_attempt_at, timer_key)
where target = 'process:instance';

create index deliveries_of_service_tasks on shardclock.deliveries (process_instance_key, element_instance_key)
where timer_type = 'SERVICE_TASK';

-- The few signals that are put off, by instance: sql/processes/read_due_signals.sql asks for each signal whether one is
-- before it. deliveries_failing does not fit that question: a plan that was made while nothing had failed would read all
-- signals that were put off.
create index deliveries_put_off on shardclock.deliveries ((coalesce(process_instance_key, timer_key)))
where (target = 'process:instance' and failed_attempts > 0) is true;

-- No other index fits the search for the children of a call. Of two that fit, a plan that was made while the tables were
-- empty may have the wrong one, and then reads all signals that wait.
create index deliveries_of_children on shardclock.deliveries (name) where name like 'child:%';

-- By target and tenant first: deliveries that wait behind a target that doesn't answer are never read on the way to
-- others. By key last: so a claim can begin behind the row at which the last one ended.
--
-- The key is an expression. A row is looked up by its key through deliveries_pkey, whenever the plan was made: on a table
-- that was emptied and vacuumed, to read a whole index that has the key is as cheap as a probe. So no other index of a
-- queue has it as a column: docs/decisions/0005-queue-plans.md.
create index deliveries_by_lane on shardclock.deliveries (target, tenant_id, next_attempt_at, (timer_key + 0));

-- Only deliveries of which an attempt has failed are in this index. A claim changes none of its columns.
create index deliveries_failing on shardclock.deliveries (target, tenant_id, next_attempt_at, (timer_key + 0))
    where failed_attempts > 0;

-- Starts that wait, as the starts that were given up below.
create index deliveries_of_starts on shardclock.deliveries (tenant_id, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

-- An engine reads the cancellations of a tenant before all other signals of the tenant.
create index deliveries_of_cancellations on shardclock.deliveries (tenant_id, next_attempt_at, (timer_key + 0))
    where (target = 'process:instance' and payload ->> 'kind' = 'cancel') is true;

create index deliveries_by_root on shardclock.deliveries ((payload ->> 'root'))
    where (target = 'process:instance' and name like 'child:%' and length(payload ->> 'root') < 20) is true;

-- Signals of one name that are sent in parts reach their receivers in the order of their throws. A query for the first
-- signal of a name has this order. No other index has it, so no plan reads the whole of deliveries_by_lane.
-- A tenant's signals in parts are counted by this index without reading the payloads of starts.
create index deliveries_of_throws on shardclock.deliveries (tenant_id, (payload ->> 'name'), (timer_key + 0))
    where (target = 'process:instance' and payload ->> 'kind' = 'thrown') is true;

-- A worker finds the endpoints to which something has become due without a probe for each endpoint that there is.
create index deliveries_of_endpoints on shardclock.deliveries (next_attempt_at, timer_key) where target like 'webhook:%';

-- Queued starts of a job begin in the order of their requests, whichever worker keeps their slots. A worker finds the
-- first of them here: docs/decisions/0075-queues-keep-their-order.md.
create index deliveries_of_jobs_by_due_date on shardclock.deliveries (target, due_date, timer_key)
where target like 'job:%';

comment on table shardclock.deliveries is
    'Firings on their way to their targets. What has ended is in shardclock.command_log, or in shardclock.dead_letters.';
comment on column shardclock.deliveries.timer_key is 'The key of the timer that fired; a firing has one delivery.';
comment on column shardclock.deliveries.next_attempt_at is 'When the next attempt is due.';
comment on column shardclock.deliveries.fired_at is 'When the timer fired.';
comment on column shardclock.deliveries.redriven_at is
    'When its new life began or begins, after it had been given up and redriven; null: it never was.';
comment on column shardclock.deliveries.claimed_by is
    'The holder (one incarnation of a worker) that has it in hand until claimed_until.';
comment on column shardclock.deliveries.failed_attempts is 'How many attempts have failed.';
comment on column shardclock.deliveries.given_back is
    'How often a worker has claimed it and given it back uncalled, for example at a drain.';
comment on column shardclock.deliveries.slot is
    'timer_key % 840; worker i of N keeps the slots with slot % N = i.';
comment on column shardclock.deliveries.failures is
    'The last failed attempts, an array of {at, attempt, reason, worker}, oldest first; null: none has failed.';
comment on column shardclock.deliveries.attempts_max is
    'How many attempts its model gives a service task; null: its handler''s or endpoint''s policy says it.';
comment on column shardclock.deliveries.worker is
    'What the program calls itself that has this service task; null: it did not say. It says nothing of a holder.';
comment on column shardclock.deliveries.headers is
    'Of a service task whose model has headers: those, which its payload has too, among the variables.';

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

-- A redrive or a discard of many dead letters begins with the oldest, 10,000 at a time. Without this index each page
-- would sort all of them.
create index dead_letters_in_order on shardclock.dead_letters (died_at, (timer_key + 0));

-- Starts that were given up are listed twice: among incidents, by the time, and among the instances that start, by their
-- keys. Each tenant's are listed by themselves. No other statement has the condition in this form: on an empty table
-- these indexes would be as good as any for a search by a key.
create index dead_letters_of_starts_by_death on shardclock.dead_letters (tenant_id, died_at, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

create index dead_letters_of_starts on shardclock.dead_letters (tenant_id, (timer_key + 0))
where (target = 'process:instance' and process_instance_key is null) is true;

create index dead_letters_of_throws on shardclock.dead_letters (tenant_id)
where (target = 'process:instance' and payload ->> 'kind' = 'thrown') is true;

comment on table shardclock.dead_letters is
    'Deliveries that were given up, until somebody redrives or discards them.';
comment on column shardclock.dead_letters.died_at is 'When it was given up.';
comment on column shardclock.dead_letters.claims is
    'How often workers had claimed it: if it is redriven, an answer to one of these claims must not count.';
comment on column shardclock.dead_letters.reason is 'Why it was given up, in a sentence.';

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

comment on table shardclock.endpoints is
    'The endpoints of tenants; each is a target of its tenant''s timers, webhook:<name>.';
comment on column shardclock.endpoints.headers is 'What its tenant adds to each request: an object of texts.';
comment on column shardclock.endpoints.secrets is
    'What requests are signed with, the newest first; during a rotation there are several.';
comment on column shardclock.endpoints.policy is
    'What was said about attempts, timeout, concurrency and rate; the rest is as by default.';
comment on column shardclock.endpoints.disabled_at is
    'When it answered 410, or somebody disabled it: nothing is sent to it; null: it works.';
