-- The schema as sql/migrations leave it, to be read on one page. Written by `make docs`: change a migration, and write
-- it anew. Functions stand at the end, by their signatures, each with the migration that has its body; docs/sql.md says
-- what those for users do.

CREATE TABLE shardclock.timers (
    timer_key bigint NOT NULL,
    process_instance_key bigint,
    element_instance_key bigint,
    due_date timestamp with time zone NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    anchor timestamp with time zone,
    claimed_by bigint,
    claimed_until timestamp with time zone,
    occurrence bigint DEFAULT 1 NOT NULL,
    repetitions integer DEFAULT 1 NOT NULL,
    slot smallint GENERATED ALWAYS AS (((timer_key % (840)::bigint))::smallint) STORED NOT NULL,
    tenant_id text DEFAULT 'default'::text NOT NULL,
    timer_type text DEFAULT 'USER'::text NOT NULL,
    target text DEFAULT 'log'::text NOT NULL,
    zone text,
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,
    anchor_occurrence bigint DEFAULT 0,
    missed text,
    paused_due_date timestamp with time zone,
    changed_at timestamp with time zone,
    kept_due_date timestamp with time zone,
    CONSTRAINT claim_ends CHECK (isfinite(claimed_until)),
    CONSTRAINT claim_is_whole CHECK (((claimed_by IS NULL) = (claimed_until IS NULL)))
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.1', autovacuum_vacuum_cost_delay='0');
ALTER TABLE ONLY shardclock.timers ALTER COLUMN name SET STATISTICS 1000;

CREATE SEQUENCE shardclock.canceled_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE shardclock.command_log (
    "position" bigint NOT NULL,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    timer_key bigint NOT NULL,
    process_instance_key bigint,
    element_instance_key bigint,
    due_date timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    occurrence bigint NOT NULL,
    holder bigint,
    intent text NOT NULL,
    tenant_id text NOT NULL,
    timer_type text NOT NULL,
    target text NOT NULL,
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,
    detail jsonb
)
PARTITION BY RANGE (recorded_at);

CREATE SEQUENCE shardclock.paused_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE shardclock.rescheduled_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE SEQUENCE shardclock.resumed_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE shardclock.endpoints (
    tenant_id text NOT NULL,
    name text NOT NULL,
    url text NOT NULL,
    headers jsonb DEFAULT '{}'::jsonb NOT NULL,
    secrets text[] NOT NULL,
    policy jsonb DEFAULT '{}'::jsonb NOT NULL,
    added_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    disabled_at timestamp with time zone,
    disabled_why text,
    CONSTRAINT disabled_is_whole CHECK (((disabled_at IS NULL) = (disabled_why IS NULL))),
    CONSTRAINT headers_are_texts CHECK (((jsonb_typeof(headers) = 'object'::text) AND (length((headers)::text) <= 20000) AND (NOT jsonb_path_exists(headers, 'strict $.keyvalue()?(@."value".type() != "string")'::jsonpath, '{}'::jsonb, true)))),
    CONSTRAINT name_is_a_word CHECK ((name ~ '^[a-z0-9][a-z0-9._-]{0,99}$'::text)),
    CONSTRAINT policy_is_within_bounds CHECK (((jsonb_typeof(policy) = 'object'::text) AND (length((policy)::text) <= 2000) AND (NOT jsonb_path_exists(policy, 'strict $.keyvalue()?((((((@."key" == "max_attempts" || @."key" == "concurrency") && (((@."value".type() != "number" || @."value" < 1) || @."value" > 1000) || @."value".floor() != @."value") || @."key" == "timeout_s" && ((@."value".type() != "number" || @."value" < 1) || @."value" > 30)) || @."key" == "retry_min_s" && ((@."value".type() != "number" || @."value" < 0.001) || @."value" > 86400)) || @."key" == "retry_max_s" && ((@."value".type() != "number" || @."value" < 0.001) || @."value" > 2592000)) || ((@."key" == "give_up_after_s" || @."key" == "expires_after_s") && @."value".type() != "null") && ((@."value".type() != "number" || @."value" < 0.1) || @."value" > 31536000)) || (@."key" == "rate_per_s" && @."value".type() != "null") && ((@."value".type() != "number" || @."value" < 0.001) || @."value" > 100000))'::jsonpath, '{}'::jsonb, true)))),
    CONSTRAINT secrets_are_one_to_four CHECK (((array_ndims(secrets) = 1) AND ((cardinality(secrets) >= 1) AND (cardinality(secrets) <= 4)) AND (array_position(secrets, NULL::text) IS NULL))),
    CONSTRAINT url_is_short CHECK ((length(url) <= 2048))
);

CREATE TABLE shardclock.jobs (
    name text NOT NULL,
    function text NOT NULL,
    every_s double precision,
    schedule text,
    zone text DEFAULT 'UTC'::text NOT NULL,
    missed text DEFAULT 'fire_once'::text NOT NULL,
    overlap text DEFAULT 'skip'::text NOT NULL,
    priority smallint DEFAULT 2 NOT NULL,
    config jsonb,
    policy jsonb DEFAULT '{}'::jsonb NOT NULL,
    declared jsonb,
    state text DEFAULT 'SCHEDULED'::text NOT NULL,
    declared_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    withdrawn_at timestamp with time zone,
    disabled_at timestamp with time zone,
    disabled_why text,
    disabled_by text,
    is_enabled boolean GENERATED ALWAYS AS (((disabled_at IS NULL) AND (withdrawn_at IS NULL))) STORED NOT NULL,
    run_timer_key bigint,
    run_claims integer,
    run_holder bigint,
    run_attempt integer,
    run_started_at timestamp with time zone,
    cancel_asked_at timestamp with time zone,
    cancel_why text,
    not_before timestamp with time zone,
    last_start timestamp with time zone,
    last_finish timestamp with time zone,
    last_success timestamp with time zone,
    last_outcome text,
    last_reason text,
    runs bigint DEFAULT 0 NOT NULL,
    successes bigint DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    crashes bigint DEFAULT 0 NOT NULL,
    consecutive_failures integer DEFAULT 0 NOT NULL,
    consecutive_crashes integer DEFAULT 0 NOT NULL,
    CONSTRAINT config_is_at_most_64_kib CHECK ((octet_length((config)::text) <= 65536)),
    CONSTRAINT every_is_within_bounds CHECK (((every_s >= (0.1)::double precision) AND (every_s <= (31536000)::double precision))),
    CONSTRAINT mark_is_whole CHECK ((num_nonnulls(run_timer_key, run_claims, run_holder, run_attempt, run_started_at) = ANY (ARRAY[0, 5]))),
    CONSTRAINT missed_is_known CHECK ((missed = ANY (ARRAY['fire_once'::text, 'fire_all'::text, 'skip'::text]))),
    CONSTRAINT name_is_a_word CHECK ((name ~ '^[a-z0-9][a-z0-9_.-]{0,99}$'::text)),
    CONSTRAINT one_rule_at_most CHECK ((num_nonnulls(every_s, schedule) <= 1)),
    CONSTRAINT overlap_is_known CHECK ((overlap = ANY (ARRAY['skip'::text, 'queue'::text, 'replace'::text]))),
    CONSTRAINT policy_is_an_object CHECK (((jsonb_typeof(policy) = 'object'::text) AND (length((policy)::text) <= 2000))),
    CONSTRAINT priority_is_1_to_4 CHECK (((priority >= 1) AND (priority <= 4))),
    CONSTRAINT schedule_is_1_to_200_characters CHECK (((length(schedule) >= 1) AND (length(schedule) <= 200))),
    CONSTRAINT state_is_known CHECK ((state = ANY (ARRAY['SCHEDULED'::text, 'STARTING'::text, 'RUNNING'::text, 'TERMINATING'::text, 'DISABLED'::text])))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

CREATE TABLE shardclock.identity (
    singleton boolean DEFAULT true NOT NULL,
    name text,
    origin text,
    adopted_at timestamp with time zone,
    held_why text,
    holds jsonb DEFAULT '[]'::jsonb NOT NULL,
    CONSTRAINT held_why_is_one_to_200_characters CHECK ((held_why ~ '^[^[:cntrl:]]{1,200}$'::text)),
    CONSTRAINT identity_is_one_row CHECK (singleton),
    CONSTRAINT name_is_1_to_63_characters CHECK ((name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'::text))
);

CREATE TABLE shardclock.deliveries (
    timer_key bigint NOT NULL,
    process_instance_key bigint,
    element_instance_key bigint,
    next_attempt_at timestamp with time zone NOT NULL,
    due_date timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    fired_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    redriven_at timestamp with time zone,
    claimed_by bigint,
    claimed_until timestamp with time zone,
    occurrence bigint NOT NULL,
    claims integer DEFAULT 0 NOT NULL,
    failed_attempts integer DEFAULT 0 NOT NULL,
    given_back integer DEFAULT 0 NOT NULL,
    slot smallint NOT NULL,
    tenant_id text NOT NULL,
    timer_type text NOT NULL,
    target text NOT NULL,
    target_element_id text,
    name text,
    schedule text,
    payload jsonb,
    failures jsonb,
    attempts_max integer,
    worker text,
    headers jsonb,
    CONSTRAINT claim_is_whole CHECK (((claimed_by IS NULL) = (claimed_until IS NULL)))
)
WITH (fillfactor='40', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_insert_scale_factor='0.1', autovacuum_vacuum_cost_delay='0');

CREATE TABLE shardclock.handlers (
    target text NOT NULL,
    reference text NOT NULL,
    policy jsonb NOT NULL,
    declared_at timestamp with time zone DEFAULT now() NOT NULL,
    withdrawn_at timestamp with time zone,
    CONSTRAINT target_is_a_handler CHECK (((target <> 'log'::text) AND (target !~~ 'webhook:%'::text))),
    CONSTRAINT target_is_no_job CHECK ((target !~~ 'job:%'::text)),
    CONSTRAINT target_is_no_process CHECK ((target !~~ 'process:%'::text))
);

CREATE TABLE shardclock.instances (
    instance_key bigint NOT NULL,
    definition_key bigint NOT NULL,
    parent_key bigint,
    parent_token bigint,
    version bigint NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    tenant_id text NOT NULL,
    process_id text NOT NULL,
    outcome text,
    error_code text,
    state text,
    result jsonb,
    root_key bigint,
    CONSTRAINT end_is_whole CHECK (((num_nonnulls(ended_at, outcome) = ANY (ARRAY[0, 2])) AND ((ended_at IS NULL) = (state IS NOT NULL)))),
    CONSTRAINT outcome_is_known CHECK ((outcome = ANY (ARRAY['COMPLETED'::text, 'CANCELED'::text, 'ERROR'::text]))),
    CONSTRAINT parent_is_whole CHECK (((parent_key IS NULL) = (parent_token IS NULL)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_cost_delay='0');

CREATE TABLE shardclock.api_keys (
    key_id bigint NOT NULL,
    tenant_id text,
    name text NOT NULL,
    prefix text NOT NULL,
    digest bytea NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    CONSTRAINT digest_is_of_sha256 CHECK ((octet_length(digest) = 32)),
    CONSTRAINT expires_after_it_was_made CHECK ((expires_at >= created_at)),
    CONSTRAINT name_is_1_to_100_characters CHECK ((((length(name) >= 1) AND (length(name) <= 100)) AND (name !~ '[[:cntrl:]]'::text))),
    CONSTRAINT prefix_is_base32 CHECK ((prefix ~ '^[a-z2-7]{8}$'::text)),
    CONSTRAINT scopes_are_known CHECK (((array_ndims(scopes) = 1) AND (cardinality(scopes) > 0) AND (scopes <@ ARRAY['read'::text, 'write'::text, 'operate'::text, 'admin'::text]))),
    CONSTRAINT tenant_id_is_1_to_200_characters CHECK ((((length(tenant_id) >= 1) AND (length(tenant_id) <= 200)) AND (tenant_id !~ '[[:cntrl:]]'::text)))
);

ALTER TABLE shardclock.api_keys ALTER COLUMN key_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME shardclock.api_keys_key_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE shardclock.audit (
    act_id bigint NOT NULL,
    recorded_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    role text NOT NULL,
    interface text NOT NULL,
    key_prefix text,
    key_name text,
    tenant_id text,
    verb text NOT NULL,
    what jsonb NOT NULL,
    outcome text NOT NULL,
    address text,
    CONSTRAINT interface_is_known CHECK ((interface = ANY (ARRAY['api'::text, 'cli'::text]))),
    CONSTRAINT outcome_is_known CHECK ((outcome = ANY (ARRAY['done'::text, 'not done'::text, 'failed'::text]))),
    CONSTRAINT texts_are_short CHECK ((GREATEST(length(key_prefix), length(key_name), length(tenant_id), length(address)) <= 200)),
    CONSTRAINT verb_is_1_to_100_characters CHECK (((length(verb) >= 1) AND (length(verb) <= 100))),
    CONSTRAINT what_is_a_short_object CHECK (((jsonb_typeof(what) = 'object'::text) AND (octet_length((what)::text) <= 16384)))
);

ALTER TABLE shardclock.audit ALTER COLUMN act_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME shardclock.audit_act_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE shardclock.beats (
    holder bigint NOT NULL,
    seen_at timestamp with time zone DEFAULT now() NOT NULL,
    held integer DEFAULT 0 NOT NULL
);

CREATE TABLE shardclock.business_keys (
    instance_key bigint NOT NULL,
    tenant_id text NOT NULL,
    business_key text NOT NULL,
    CONSTRAINT business_key_is_1_to_255_characters CHECK (((length(business_key) >= 1) AND (length(business_key) <= 255)))
);

CREATE TABLE shardclock.consumers (
    group_name text NOT NULL,
    partition smallint DEFAULT 0 NOT NULL,
    partitions smallint DEFAULT 1 NOT NULL,
    "position" bigint DEFAULT 0 NOT NULL,
    worked_at timestamp with time zone,
    lease bigint,
    leased_by text,
    leased_until timestamp with time zone,
    leased_for interval,
    leased_records integer DEFAULT 0 NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    failures bigint DEFAULT 0 NOT NULL,
    error text,
    failed_at timestamp with time zone,
    not_before timestamp with time zone,
    CONSTRAINT attempts_are_not_negative CHECK ((attempts >= 0)),
    CONSTRAINT failures_can_be_added_up CHECK (((failures >= 0) AND (failures <= '1000000000000000'::bigint))),
    CONSTRAINT group_name_has_no_control_characters CHECK ((group_name !~ '[[:cntrl:]]'::text)),
    CONSTRAINT group_name_is_1_to_200_characters CHECK (((length(group_name) >= 1) AND (length(group_name) <= 200))),
    CONSTRAINT partition_is_one_of_1_to_840 CHECK ((((partitions >= 1) AND (partitions <= 840)) AND ((partition >= 0) AND (partition <= (partitions - 1))))),
    CONSTRAINT position_is_not_negative CHECK (("position" >= 0)),
    CONSTRAINT worked_at_is_finite CHECK (isfinite(worked_at))
)
WITH (fillfactor='50');

CREATE TABLE shardclock.coordination (
    singleton boolean DEFAULT true NOT NULL,
    ramp_per_s integer DEFAULT 150000,
    CONSTRAINT coordination_is_one_row CHECK (singleton),
    CONSTRAINT ramp_per_s_is_not_negative CHECK ((ramp_per_s >= 0))
);

CREATE TABLE shardclock.dead_letters (
    timer_key bigint NOT NULL,
    process_instance_key bigint,
    element_instance_key bigint,
    due_date timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    fired_at timestamp with time zone NOT NULL,
    died_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    occurrence bigint NOT NULL,
    claims integer NOT NULL,
    failed_attempts integer NOT NULL,
    slot smallint NOT NULL,
    tenant_id text NOT NULL,
    timer_type text NOT NULL,
    target text NOT NULL,
    target_element_id text,
    name text,
    schedule text,
    reason text NOT NULL,
    payload jsonb,
    failures jsonb
);

CREATE TABLE shardclock.definitions (
    definition_key bigint NOT NULL,
    tenant_id text NOT NULL,
    process_id text NOT NULL,
    version integer NOT NULL,
    name text NOT NULL,
    resource text NOT NULL,
    digest bytea NOT NULL,
    model bytea NOT NULL,
    starts jsonb NOT NULL,
    deployed_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    starts_by_hand boolean DEFAULT true NOT NULL,
    CONSTRAINT digest_is_of_sha256 CHECK ((octet_length(digest) = 32)),
    CONSTRAINT model_is_at_most_4_mib CHECK ((octet_length(model) <= 4194304)),
    CONSTRAINT process_id_is_1_to_200_characters CHECK (((length(process_id) >= 1) AND (length(process_id) <= 200))),
    CONSTRAINT tenant_id_is_1_to_200_characters CHECK (((length(tenant_id) >= 1) AND (length(tenant_id) <= 200)))
);

CREATE TABLE shardclock.holders (
    holder bigint NOT NULL,
    role text DEFAULT 'shard'::text NOT NULL,
    cluster_id text NOT NULL,
    actor_name text NOT NULL,
    node_id text NOT NULL,
    host text NOT NULL,
    pid integer NOT NULL,
    part integer,
    part_count integer,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    seen_at timestamp with time zone,
    ended_at timestamp with time zone,
    ended_why text,
    identity text,
    suspended_at timestamp with time zone,
    CONSTRAINT assignment_is_whole CHECK (((part IS NULL) = (part_count IS NULL))),
    CONSTRAINT end_is_whole CHECK (((ended_at IS NULL) = (ended_why IS NULL))),
    CONSTRAINT part_is_one_of_part_count CHECK ((((part_count >= 1) AND (part_count <= 840)) AND (part >= 0) AND (part < part_count)))
);

CREATE TABLE shardclock.idempotent_requests (
    created_at timestamp with time zone NOT NULL,
    slot smallint NOT NULL,
    status smallint NOT NULL,
    tenant_id text NOT NULL,
    idempotency_key text NOT NULL,
    fingerprint bytea NOT NULL,
    body jsonb NOT NULL,
    CONSTRAINT fingerprint_is_of_sha256 CHECK ((octet_length(fingerprint) = 32)),
    CONSTRAINT idempotency_key_is_1_to_255_characters CHECK (((length(idempotency_key) >= 1) AND (length(idempotency_key) <= 255))),
    CONSTRAINT slot_is_its_day_s CHECK ((slot = shardclock.request_slot(created_at))),
    CONSTRAINT status_is_of_http CHECK (((status >= 100) AND (status <= 599)))
)
PARTITION BY LIST (slot);

CREATE TABLE shardclock.incidents (
    instance_key bigint NOT NULL,
    token bigint NOT NULL,
    signal_key bigint DEFAULT 0 NOT NULL,
    node_id text NOT NULL,
    sentence text NOT NULL,
    raised_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL
);

CREATE TABLE shardclock.instance_steps (
    instance_key bigint NOT NULL,
    version bigint NOT NULL,
    stepped_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    holder bigint NOT NULL,
    signals jsonb NOT NULL,
    passes jsonb NOT NULL
);

CREATE TABLE shardclock.job_runs (
    timer_key bigint NOT NULL,
    claims integer NOT NULL,
    job text NOT NULL,
    outcome text,
    attempt integer NOT NULL,
    scheduled_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone NOT NULL,
    running_at timestamp with time zone,
    ended_at timestamp with time zone,
    holder bigint,
    progress double precision,
    message text,
    progressed_at timestamp with time zone,
    reason text,
    traceback text,
    result jsonb,
    log text,
    late_at timestamp with time zone,
    late_outcome text
)
WITH (fillfactor='70');

CREATE TABLE shardclock.leadership (
    renewed_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    term bigint DEFAULT 0 NOT NULL,
    leader bigint,
    cluster_id text,
    lease_until timestamp with time zone
);

CREATE TABLE shardclock.log_days (
    day date NOT NULL
);

CREATE VIEW shardclock.log_ends AS
 SELECT min("position") AS first,
    max("position") AS last
   FROM shardclock.command_log l;

CREATE VIEW shardclock.log_writers AS
 WITH ours AS MATERIALIZED (
         SELECT l.pid,
            l.locktype,
            l.virtualtransaction
           FROM pg_locks l
          WHERE ((l.database = ( SELECT d.oid
                   FROM pg_database d
                  WHERE (d.datname = current_database()))) AND (((l.locktype = 'advisory'::text) AND (l.classid = (1936221036)::oid) AND (l.objsubid = 2) AND (l.mode = 'ShareLock'::text)) OR ((l.locktype = 'relation'::text) AND (l.relation = ('shardclock.command_log'::regclass)::oid) AND (l.mode = 'RowExclusiveLock'::text))) AND l.granted)
        )
 SELECT m.pid,
    a.usename AS role_name,
    a.application_name,
    COALESCE(a.xact_start, p.prepared) AS began_at,
    a.state,
    a.query,
    p.gid AS prepared_as
   FROM (((ours m
     LEFT JOIN pg_stat_activity a ON ((a.pid = m.pid)))
     LEFT JOIN pg_locks x ON (((m.pid IS NULL) AND (x.pid IS NULL) AND (x.locktype = 'transactionid'::text) AND (x.virtualtransaction = m.virtualtransaction))))
     LEFT JOIN pg_prepared_xacts p ON ((p.transaction = x.transactionid)))
  WHERE ((m.locktype = 'advisory'::text) AND ((m.pid IS NULL) OR (EXISTS ( SELECT
           FROM ours t
          WHERE ((t.locktype = 'relation'::text) AND ((t.pid = m.pid) OR (t.pid IS NULL)))))));

CREATE VIEW shardclock.logged_keys AS
 SELECT timer_key
   FROM shardclock.command_log l;

CREATE TABLE shardclock.messages (
    message_key bigint NOT NULL,
    published_at timestamp with time zone DEFAULT now() NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    tenant_id text NOT NULL,
    name text NOT NULL,
    correlation text NOT NULL,
    correlated text[] DEFAULT '{}'::text[] NOT NULL,
    variables jsonb NOT NULL,
    passed_over boolean DEFAULT false NOT NULL
);

CREATE TABLE shardclock.migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE SEQUENCE shardclock.position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE VIEW shardclock.presence AS
 SELECT h.holder,
    h.role,
    h.cluster_id,
    h.actor_name,
    h.node_id,
    h.host,
    h.pid,
    h.part,
    h.part_count,
    b.held,
    h.started_at,
    b.seen_at,
    h.suspended_at,
    h.identity,
    (b.seen_at > (now() - '00:00:05'::interval)) AS alive
   FROM (shardclock.holders h
     CROSS JOIN LATERAL ( SELECT b_1.seen_at,
            b_1.held
           FROM shardclock.beats b_1
          WHERE (b_1.holder = h.holder)
          ORDER BY b_1.seen_at DESC
         LIMIT 1) b)
  WHERE (h.ended_at IS NULL);

CREATE TABLE shardclock.process_starts (
    tenant_id text NOT NULL,
    idempotency_key text NOT NULL,
    process_id text NOT NULL,
    instance_key bigint NOT NULL,
    asked_at timestamp with time zone DEFAULT now() NOT NULL,
    business_key text,
    CONSTRAINT idempotency_key_is_1_to_255_characters CHECK (((length(idempotency_key) >= 1) AND (length(idempotency_key) <= 255)))
);

CREATE TABLE shardclock.records_aside (
    group_name text NOT NULL,
    "position" bigint NOT NULL,
    set_aside_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    attempts integer NOT NULL,
    error text,
    record jsonb NOT NULL
);

CREATE TABLE shardclock.scale (
    role text NOT NULL,
    wanted integer DEFAULT 2 NOT NULL,
    wanted_min integer,
    wanted_max integer,
    target_per_s integer DEFAULT 5000 NOT NULL,
    CONSTRAINT policy_is_1_to_840 CHECK ((((wanted_min >= 1) AND (wanted_min <= 840)) AND ((wanted_max >= wanted_min) AND (wanted_max <= 840)))),
    CONSTRAINT policy_is_whole CHECK (((wanted_min IS NULL) = (wanted_max IS NULL))),
    CONSTRAINT target_per_s_is_positive CHECK ((target_per_s > 0)),
    CONSTRAINT wanted_is_1_to_840 CHECK (((wanted >= 1) AND (wanted <= 840)))
);

CREATE TABLE shardclock.subscriptions (
    subscription_key bigint NOT NULL,
    instance_key bigint,
    token bigint,
    definition_key bigint,
    opened_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    taken_by bigint,
    is_once boolean NOT NULL,
    kind text NOT NULL,
    tenant_id text NOT NULL,
    name text NOT NULL,
    correlation text,
    process_id text NOT NULL,
    node_id text NOT NULL,
    CONSTRAINT kind_is_known CHECK ((kind = ANY (ARRAY['message'::text, 'signal'::text]))),
    CONSTRAINT subscriber_is_one CHECK ((num_nonnulls(instance_key, definition_key) = 1))
);

ALTER TABLE shardclock.subscriptions ALTER COLUMN subscription_key ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME shardclock.subscriptions_subscription_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE shardclock.task_acts (
    act_id bigint NOT NULL,
    task_key bigint NOT NULL,
    instance_key bigint NOT NULL,
    acted_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    act text NOT NULL,
    who text NOT NULL,
    detail jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT act_is_known CHECK ((act = ANY (ARRAY['CREATED'::text, 'ASSIGNED'::text, 'COMPLETED'::text, 'CANCELED'::text])))
);

ALTER TABLE shardclock.task_acts ALTER COLUMN act_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME shardclock.task_acts_act_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE shardclock.tasks (
    task_key bigint NOT NULL,
    instance_key bigint NOT NULL,
    token bigint NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    due_date timestamp with time zone,
    completed_at timestamp with time zone,
    tenant_id text NOT NULL,
    process_id text NOT NULL,
    node_id text NOT NULL,
    name text NOT NULL,
    assignee text,
    candidate_groups text[] DEFAULT '{}'::text[] NOT NULL,
    candidate_users text[] DEFAULT '{}'::text[] NOT NULL,
    form_key text
);

CREATE TABLE shardclock.tenant_usage (
    tenant_id text NOT NULL,
    resource text NOT NULL,
    used bigint DEFAULT 0 NOT NULL,
    counted_at timestamp with time zone DEFAULT '1970-01-01 00:00:00+00'::timestamp with time zone NOT NULL
)
WITH (fillfactor='50');

CREATE TABLE shardclock.tenants (
    tenant_id text NOT NULL,
    timers_max bigint,
    payload_bytes_max bigint,
    waiters_max bigint,
    endpoints_max bigint,
    rate_per_s double precision,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    instances_max bigint,
    tasks_max bigint,
    messages_max bigint,
    definitions_max bigint,
    schedules_max bigint,
    CONSTRAINT limits_are_not_negative CHECK ((LEAST(timers_max, payload_bytes_max, waiters_max, endpoints_max) >= 0)),
    CONSTRAINT limits_of_processes_are_not_negative CHECK ((LEAST(instances_max, tasks_max, messages_max, definitions_max) >= 0)),
    CONSTRAINT rate_is_within_bounds CHECK (((rate_per_s >= (0.001)::double precision) AND (rate_per_s <= (1000000)::double precision))),
    CONSTRAINT schedules_max_is_not_negative CHECK ((schedules_max >= 0)),
    CONSTRAINT tenant_id_is_1_to_200_characters CHECK ((((length(tenant_id) >= 1) AND (length(tenant_id) <= 200)) AND (tenant_id !~ '[[:cntrl:]]'::text)))
);

CREATE VIEW shardclock.timer_history WITH (security_invoker='true') AS
 SELECT timers.timer_key,
        CASE
            WHEN (timers.paused_due_date IS NULL) THEN 'PENDING'::text
            ELSE 'PAUSED'::text
        END AS state,
    timers.tenant_id,
    timers.name,
    timers.timer_type,
    timers.process_instance_key,
    timers.element_instance_key,
    timers.target_element_id,
    COALESCE(timers.paused_due_date, timers.due_date) AS due_date,
    timers.created_at,
    timers.schedule,
    timers.occurrence,
    timers.target,
    timers.payload,
    NULL::timestamp with time zone AS ended_at,
    timers.claimed_by AS holder,
    NULL::jsonb AS detail,
    COALESCE(timers.zone, 'UTC'::text) AS zone,
    COALESCE(timers.missed, 'fire_once'::text) AS missed
   FROM shardclock.timers
UNION ALL
 SELECT command_log.timer_key,
    command_log.intent AS state,
    command_log.tenant_id,
    command_log.name,
    command_log.timer_type,
    command_log.process_instance_key,
    command_log.element_instance_key,
    command_log.target_element_id,
    command_log.due_date,
    command_log.created_at,
    command_log.schedule,
    command_log.occurrence,
    command_log.target,
    command_log.payload,
    command_log.recorded_at AS ended_at,
    command_log.holder,
    command_log.detail,
    NULL::text AS zone,
    NULL::text AS missed
   FROM shardclock.command_log
  WHERE ((command_log.intent = ANY (ARRAY['TRIGGERED'::text, 'CANCELED'::text])) OR ((command_log.intent = 'SKIPPED'::text) AND ((command_log.detail ->> 'policy'::text) = 'skip'::text)));

CREATE SEQUENCE shardclock.timer_key_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

CREATE TABLE shardclock.zones (
    zone text NOT NULL
);

ALTER TABLE ONLY shardclock.idempotent_requests ATTACH PARTITION shardclock.idempotent_requests_0 FOR VALUES IN ('0');

ALTER TABLE ONLY shardclock.idempotent_requests ATTACH PARTITION shardclock.idempotent_requests_1 FOR VALUES IN ('1');

ALTER TABLE ONLY shardclock.idempotent_requests ATTACH PARTITION shardclock.idempotent_requests_2 FOR VALUES IN ('2');

ALTER TABLE ONLY shardclock.api_keys
    ADD CONSTRAINT api_keys_by_prefix UNIQUE (prefix);

ALTER TABLE ONLY shardclock.api_keys
    ADD CONSTRAINT api_keys_pkey PRIMARY KEY (key_id);

ALTER TABLE ONLY shardclock.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (act_id);

ALTER TABLE ONLY shardclock.beats
    ADD CONSTRAINT beats_pkey PRIMARY KEY (holder, seen_at);

ALTER TABLE ONLY shardclock.business_keys
    ADD CONSTRAINT business_keys_pkey PRIMARY KEY (instance_key);

ALTER TABLE ONLY shardclock.consumers
    ADD CONSTRAINT consumers_pkey PRIMARY KEY (group_name, partition);

ALTER TABLE ONLY shardclock.coordination
    ADD CONSTRAINT coordination_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY shardclock.dead_letters
    ADD CONSTRAINT dead_letters_pkey PRIMARY KEY (timer_key);

ALTER TABLE ONLY shardclock.definitions
    ADD CONSTRAINT definitions_pkey PRIMARY KEY (definition_key);

ALTER TABLE ONLY shardclock.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (timer_key);

ALTER TABLE ONLY shardclock.endpoints
    ADD CONSTRAINT endpoints_pkey PRIMARY KEY (tenant_id, name);

ALTER TABLE ONLY shardclock.handlers
    ADD CONSTRAINT handlers_pkey PRIMARY KEY (target);

ALTER TABLE ONLY shardclock.holders
    ADD CONSTRAINT holders_pkey PRIMARY KEY (holder);

ALTER TABLE ONLY shardclock.idempotent_requests
    ADD CONSTRAINT idempotent_requests_pkey PRIMARY KEY (slot, tenant_id, idempotency_key);

ALTER TABLE ONLY shardclock.identity
    ADD CONSTRAINT identity_pkey PRIMARY KEY (singleton);

ALTER TABLE ONLY shardclock.incidents
    ADD CONSTRAINT incidents_pkey PRIMARY KEY (instance_key, token, signal_key);

ALTER TABLE ONLY shardclock.instance_steps
    ADD CONSTRAINT instance_steps_pkey PRIMARY KEY (instance_key, version);

ALTER TABLE ONLY shardclock.instances
    ADD CONSTRAINT instances_pkey PRIMARY KEY (instance_key);

ALTER TABLE ONLY shardclock.job_runs
    ADD CONSTRAINT job_runs_pkey PRIMARY KEY (timer_key, claims);

ALTER TABLE ONLY shardclock.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (name);

ALTER TABLE ONLY shardclock.leadership
    ADD CONSTRAINT leadership_pkey PRIMARY KEY (renewed_at);

ALTER TABLE ONLY shardclock.log_days
    ADD CONSTRAINT log_days_pkey PRIMARY KEY (day);

ALTER TABLE ONLY shardclock.messages
    ADD CONSTRAINT messages_pkey PRIMARY KEY (message_key);

ALTER TABLE ONLY shardclock.migrations
    ADD CONSTRAINT migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY shardclock.process_starts
    ADD CONSTRAINT process_starts_pkey PRIMARY KEY (tenant_id, idempotency_key);

ALTER TABLE ONLY shardclock.records_aside
    ADD CONSTRAINT records_aside_pkey PRIMARY KEY (group_name, "position");

ALTER TABLE ONLY shardclock.scale
    ADD CONSTRAINT scale_pkey PRIMARY KEY (role);

ALTER TABLE ONLY shardclock.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (subscription_key);

ALTER TABLE ONLY shardclock.task_acts
    ADD CONSTRAINT task_acts_pkey PRIMARY KEY (act_id);

ALTER TABLE ONLY shardclock.tasks
    ADD CONSTRAINT tasks_by_token UNIQUE (instance_key, token);

ALTER TABLE ONLY shardclock.tasks
    ADD CONSTRAINT tasks_pkey PRIMARY KEY (task_key);

ALTER TABLE ONLY shardclock.tenant_usage
    ADD CONSTRAINT tenant_usage_pkey PRIMARY KEY (tenant_id, resource);

ALTER TABLE ONLY shardclock.tenants
    ADD CONSTRAINT tenants_pkey PRIMARY KEY (tenant_id);

ALTER TABLE ONLY shardclock.timers
    ADD CONSTRAINT timers_pkey PRIMARY KEY (timer_key);

ALTER TABLE ONLY shardclock.zones
    ADD CONSTRAINT zones_pkey PRIMARY KEY (zone);

CREATE INDEX api_keys_by_name ON shardclock.api_keys USING btree (name, tenant_id);

CREATE INDEX audit_by_age ON shardclock.audit USING btree (recorded_at, act_id);

CREATE INDEX business_keys_by_key ON shardclock.business_keys USING btree (business_key, tenant_id, ((- instance_key)));

CREATE INDEX command_log_by_name ON ONLY shardclock.command_log USING btree (tenant_id, name, recorded_at) WHERE (name IS NOT NULL);

CREATE INDEX command_log_by_operation ON ONLY shardclock.command_log USING btree (((detail ->> 'operation'::text))) WHERE ((detail ->> 'operation'::text) IS NOT NULL);

CREATE INDEX command_log_by_timer_key ON ONLY shardclock.command_log USING btree (timer_key);

CREATE INDEX command_log_in_order ON ONLY shardclock.command_log USING btree ("position");

CREATE INDEX dead_letters_by_target ON shardclock.dead_letters USING btree (target, tenant_id, died_at);

CREATE INDEX dead_letters_in_order ON shardclock.dead_letters USING btree (died_at, ((timer_key + 0)));

CREATE INDEX dead_letters_of_starts ON shardclock.dead_letters USING btree (tenant_id, ((timer_key + 0))) WHERE (((target = 'process:instance'::text) AND (process_instance_key IS NULL)) IS TRUE);

CREATE INDEX dead_letters_of_starts_by_death ON shardclock.dead_letters USING btree (tenant_id, died_at, ((timer_key + 0))) WHERE (((target = 'process:instance'::text) AND (process_instance_key IS NULL)) IS TRUE);

CREATE INDEX dead_letters_of_throws ON shardclock.dead_letters USING btree (tenant_id) WHERE (((target = 'process:instance'::text) AND ((payload ->> 'kind'::text) = 'thrown'::text)) IS TRUE);

CREATE UNIQUE INDEX definitions_by_process ON shardclock.definitions USING btree (tenant_id, process_id, version);

CREATE INDEX deliveries_by_lane ON shardclock.deliveries USING btree (target, tenant_id, next_attempt_at, ((timer_key + 0)));

CREATE INDEX deliveries_by_root ON shardclock.deliveries USING btree (((payload ->> 'root'::text))) WHERE (((target = 'process:instance'::text) AND (name ~~ 'child:%'::text) AND (length((payload ->> 'root'::text)) < 20)) IS TRUE);

CREATE INDEX deliveries_failing ON shardclock.deliveries USING btree (target, tenant_id, next_attempt_at, ((timer_key + 0))) WHERE (failed_attempts > 0);

CREATE INDEX deliveries_of_cancellations ON shardclock.deliveries USING btree (tenant_id, next_attempt_at, ((timer_key + 0))) WHERE (((target = 'process:instance'::text) AND ((payload ->> 'kind'::text) = 'cancel'::text)) IS TRUE);

CREATE INDEX deliveries_of_children ON shardclock.deliveries USING btree (name) WHERE (name ~~ 'child:%'::text);

CREATE INDEX deliveries_of_endpoints ON shardclock.deliveries USING btree (next_attempt_at, timer_key) WHERE (target ~~ 'webhook:%'::text);

CREATE INDEX deliveries_of_jobs ON shardclock.deliveries USING btree (next_attempt_at, timer_key) WHERE (target ~~ 'job:%'::text);

CREATE INDEX deliveries_of_jobs_by_due_date ON shardclock.deliveries USING btree (target, due_date, timer_key) WHERE (target ~~ 'job:%'::text);

CREATE INDEX deliveries_of_processes ON shardclock.deliveries USING btree (next_attempt_at, timer_key) WHERE (target = 'process:instance'::text);

CREATE INDEX deliveries_of_service_tasks ON shardclock.deliveries USING btree (process_instance_key, element_instance_key) WHERE (timer_type = 'SERVICE_TASK'::text);

CREATE INDEX deliveries_of_starts ON shardclock.deliveries USING btree (tenant_id, ((timer_key + 0))) WHERE (((target = 'process:instance'::text) AND (process_instance_key IS NULL)) IS TRUE);

CREATE INDEX deliveries_of_throws ON shardclock.deliveries USING btree (tenant_id) WHERE (((target = 'process:instance'::text) AND ((payload ->> 'kind'::text) = 'thrown'::text)) IS TRUE);

CREATE INDEX deliveries_of_throws_by_name ON shardclock.deliveries USING btree (((payload ->> 'name'::text)), tenant_id, ((timer_key + 0))) WHERE (((target = 'process:instance'::text) AND ((payload ->> 'kind'::text) = 'thrown'::text)) IS TRUE);

CREATE INDEX deliveries_put_off ON shardclock.deliveries USING btree (COALESCE(process_instance_key, timer_key)) WHERE ((target = 'process:instance'::text) AND (failed_attempts > 0));

CREATE INDEX holders_ended ON shardclock.holders USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX holders_suspended ON shardclock.holders USING btree (suspended_at) WHERE ((suspended_at IS NOT NULL) AND (ended_at IS NULL));

CREATE INDEX idempotent_requests_by_age ON ONLY shardclock.idempotent_requests USING btree (created_at);

CREATE INDEX instances_by_end ON shardclock.instances USING btree (ended_at) WHERE (ended_at IS NOT NULL);

CREATE INDEX instances_by_outcome ON shardclock.instances USING btree (tenant_id, outcome, ((instance_key + 0))) WHERE (COALESCE(outcome, 'COMPLETED'::text) <> 'COMPLETED'::text);

CREATE INDEX instances_by_parent ON shardclock.instances USING btree (parent_key, parent_token) WHERE (parent_key IS NOT NULL);

CREATE INDEX instances_by_process ON shardclock.instances USING btree (tenant_id, process_id, instance_key);

CREATE INDEX instances_by_root ON shardclock.instances USING btree (root_key) WHERE (((root_key IS NOT NULL) AND (ended_at IS NULL)) IS TRUE);

CREATE INDEX instances_running ON shardclock.instances USING btree (definition_key, ((instance_key + 0))) WHERE ((ended_at IS NULL) IS TRUE);

CREATE INDEX job_runs_by_job ON shardclock.job_runs USING btree (job, started_at);

CREATE INDEX messages_by_age ON shardclock.messages USING btree (expires_at);

CREATE INDEX messages_by_name ON shardclock.messages USING btree (tenant_id, name, correlation, ((message_key + 0)));

CREATE INDEX messages_passed_over ON shardclock.messages USING btree (tenant_id, name, correlation) WHERE passed_over;

CREATE INDEX process_starts_by_age ON shardclock.process_starts USING btree (asked_at);

CREATE INDEX schedules_by_tenant ON shardclock.timers USING btree (tenant_id) WHERE (schedule IS NOT NULL);

CREATE INDEX subscriptions_by_definition ON shardclock.subscriptions USING btree (definition_key) WHERE (definition_key IS NOT NULL);

CREATE INDEX subscriptions_by_instance ON shardclock.subscriptions USING btree (instance_key, token) WHERE (instance_key IS NOT NULL);

CREATE INDEX subscriptions_by_name ON shardclock.subscriptions USING btree (tenant_id, kind, name, correlation);

CREATE INDEX subscriptions_in_order ON shardclock.subscriptions USING btree (tenant_id, name, ((subscription_key + 0))) WHERE ((kind = 'signal'::text) IS TRUE);

CREATE INDEX task_acts_by_instance ON shardclock.task_acts USING btree (instance_key);

CREATE INDEX task_acts_by_task ON shardclock.task_acts USING btree (task_key, act_id);

CREATE INDEX tasks_by_assignee ON shardclock.tasks USING btree (assignee, tenant_id, task_key) WHERE (assignee IS NOT NULL);

CREATE INDEX tasks_by_tenant ON shardclock.tasks USING btree (tenant_id, task_key);

CREATE UNIQUE INDEX timers_by_name_prefix ON shardclock.timers USING btree (tenant_id, name text_pattern_ops) WHERE (name IS NOT NULL);

CREATE INDEX timers_by_process_instance ON shardclock.timers USING btree (process_instance_key) WHERE (process_instance_key IS NOT NULL);

CREATE INDEX timers_by_slot ON shardclock.timers USING btree (slot, due_date);

CREATE INDEX timers_by_target ON shardclock.timers USING btree (target, due_date, timer_key) WHERE (target <> 'log'::text);

CREATE INDEX timers_by_tenant ON shardclock.timers USING btree (tenant_id, due_date, timer_key) WHERE (tenant_id <> 'default'::text);

CREATE INDEX timers_by_token ON shardclock.timers USING btree (((process_instance_key + 0)), element_instance_key) WHERE ((target = 'process:instance'::text) IS TRUE);

CREATE TRIGGER check_changed_timer AFTER UPDATE OF timer_key, process_instance_key, element_instance_key, due_date, created_at, anchor, anchor_occurrence, paused_due_date, kept_due_date, changed_at, occurrence, repetitions, tenant_id, timer_type, target, zone, missed, target_element_id, name, schedule, payload ON shardclock.timers FOR EACH ROW EXECUTE FUNCTION shardclock.check_timer();
ALTER TABLE shardclock.timers ENABLE ALWAYS TRIGGER check_changed_timer;

CREATE TRIGGER check_new_timer BEFORE INSERT ON shardclock.timers FOR EACH ROW EXECUTE FUNCTION shardclock.check_timer();
ALTER TABLE shardclock.timers ENABLE ALWAYS TRIGGER check_new_timer;

CREATE TRIGGER command_log_marks_writers BEFORE INSERT ON shardclock.command_log FOR EACH STATEMENT EXECUTE FUNCTION shardclock.mark_log_writer();
ALTER TABLE shardclock.command_log ENABLE ALWAYS TRIGGER command_log_marks_writers;

CREATE TRIGGER definitions_check_quota BEFORE INSERT ON shardclock.definitions FOR EACH ROW EXECUTE FUNCTION shardclock.check_definition();

CREATE TRIGGER instances_forget_business_keys AFTER DELETE ON shardclock.instances REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION shardclock.forget_business_keys();

CREATE TRIGGER jobs_refuse_deep_config BEFORE INSERT OR UPDATE OF config ON shardclock.jobs FOR EACH ROW WHEN (shardclock.is_too_deep(new.config)) EXECUTE FUNCTION shardclock.refuse_deep_config();

CREATE TRIGGER keep_hold BEFORE UPDATE ON shardclock.identity FOR EACH ROW WHEN ((new.held_why IS DISTINCT FROM old.held_why)) EXECUTE FUNCTION shardclock.keep_hold();

CREATE TRIGGER messages_check_quota BEFORE INSERT ON shardclock.messages FOR EACH ROW EXECUTE FUNCTION shardclock.check_kept_message();

CREATE TRIGGER task_acts_note_key_prefix BEFORE INSERT ON shardclock.task_acts FOR EACH ROW WHEN ((current_setting('shardclock.key_prefix'::text, true) <> ''::text)) EXECUTE FUNCTION shardclock.note_key_prefix();

ALTER TABLE ONLY shardclock.holders
    ADD CONSTRAINT holders_role_fkey FOREIGN KEY (role) REFERENCES shardclock.scale(role);

-- Functions, and where their bodies are
-- activate_service_tasks(text, integer, interval, text, text)  0048_tasks_by_bytes.sql
-- add_job(text, text, interval, text, text, text, text, integer, jsonb)  0049_reserved_names.sql
-- adopt(text)  0003_cluster.sql
-- advance_keys()  0005_schedule.sql
-- agreed_zone(text, text)  0049_reserved_names.sql
-- apply_job(jsonb)  0043_jobs_declared_alone.sql
-- at_sign_refusal(text)  0049_reserved_names.sql
-- attempts_left(integer, integer)  0036_programs.sql
-- brackets_refusal(text, text)  0049_reserved_names.sql
-- broken_rule(shardclock.timers)  0051_limits_of_processes.sql
-- cancel_delivery(bigint, text)  0018_processes.sql
-- cancel_instance(bigint, text)  0051_limits_of_processes.sql
-- cancel_job(text, text)  0024_cancelled_for_good.sql
-- cancel_process_instance(bigint, text)  0049_reserved_names.sql
-- cancel_rows(bigint[], text, boolean)  0049_reserved_names.sql
-- cancel_start(bigint, bigint)  0046_who_cancelled.sql
-- cancel_timer(bigint, text, text, text)  0006_verbs.sql
-- cancel_timers(bigint[], text)  0049_reserved_names.sql
-- change_rules(bigint[], text, text, text)  0053_runs_and_queues.sql
-- change_timer(text, bigint, text, text, text)  0049_reserved_names.sql
-- changes_of_job(jsonb)  0015_job_files.sql
-- check_client_timer(bigint)  0049_reserved_names.sql
-- check_definition()  0051_limits_of_processes.sql
-- check_due_date(timestamp with time zone, text, text)  0004_dates.sql
-- check_kept_message()  0051_limits_of_processes.sql
-- check_nobody_keeps(text)  0002_command_log.sql
-- check_on_conflict(text, text)  0005_schedule.sql
-- check_one_timer(bigint, text)  0006_verbs.sql
-- check_quota(text, text, bigint)  0051_limits_of_processes.sql
-- check_schedule(text, text)  0049_reserved_names.sql
-- check_timer()  0049_reserved_names.sql
-- check_variables(jsonb)  0051_limits_of_processes.sql
-- check_zone(text)  0049_reserved_names.sql
-- claim_task(bigint, text, text)  0035_whose_tasks.sql
-- clock_of(timestamp with time zone, text)  0004_dates.sql
-- close_starts(bigint)  0049_reserved_names.sql
-- closed_target(text, text)  0053_runs_and_queues.sql
-- complete_service_task(bigint, integer, jsonb, text)  0036_programs.sql
-- complete_task(bigint, jsonb, text, text)  0035_whose_tasks.sql
-- configure_job(text, jsonb)  0012_job_verbs.sql
-- correlate_waiting(bigint[])  0044_messages_in_order.sql
-- cron_days(text, bigint, boolean, integer, integer)  0049_reserved_names.sql
-- cron_number(text, text[], integer)  0049_reserved_names.sql
-- cron_refusal(text)  0049_reserved_names.sql
-- declare_job(jsonb)  0012_job_verbs.sql
-- declare_jobs(jsonb[], text[])  0043_jobs_declared_alone.sql
-- delay_from_now(text, text, text)  0004_dates.sql
-- delete_definition(bigint, text)  0018_processes.sql
-- deploy_model(text, text, bytea, bytea, jsonb)  0021_bounds_of_processes.sql
-- described_job(jsonb)  0015_job_files.sql
-- disable_job(text, text)  0012_job_verbs.sql
-- discard_dead_letters(bigint[], text)  0034_business_keys.sql
-- drop_job_timer(text, text)  0011_jobs.sql
-- drop_log_partition(integer)  0002_command_log.sql
-- enable_job(text)  0012_job_verbs.sql
-- end_of_page(bigint, integer)  0020_policies.sql
-- end_of_rule(text)  0049_reserved_names.sql
-- end_of_task(bigint, text)  0035_whose_tasks.sql
-- end_service_task(bigint, integer, text, text, jsonb, jsonb)  0036_programs.sql
-- ended_as(bigint, text, text)  0006_verbs.sql
-- ensure_log_partitions(integer)  0002_command_log.sql
-- ensure_timer(timestamp with time zone, text, text, text, text, jsonb, text, text, text, bigint, bigint, text, text, text)  0005_schedule.sql
-- extend_service_task(bigint, integer, interval, text)  0036_programs.sql
-- fail_service_task(bigint, integer, text, integer, interval, text)  0036_programs.sql
-- find_definition(text, text, integer)  0018_processes.sql
-- find_keys(text, text, text, timestamp with time zone, timestamp with time zone, bigint, bigint, integer, text)  0014_targets.sql
-- find_requests(text[], text[], timestamp with time zone)  0013_api.sql
-- find_timers(text, text, text, text, timestamp with time zone, timestamp with time zone, bigint, text, integer, text)  0014_targets.sql
-- foreign_reason(text, shardclock.identity)  0028_operators_hold.sql
-- forget_business_keys()  0041_states_in_order.sql
-- forget_requests()  0013_api.sql
-- frequency_refusal(text, text, numeric)  0049_reserved_names.sql
-- has_no_start(text)  0049_reserved_names.sql
-- has_old_timer(text, interval)  0030_what_jobs_leave.sql
-- has_targets()  0022_signals.sql
-- hold_reason(text)  0028_operators_hold.sql
-- is_free(bigint, timestamp with time zone, timestamp with time zone, interval, bigint[])  0001_timers.sql
-- is_key_used(bigint)  0020_policies.sql
-- is_of_system(text)  0049_reserved_names.sql
-- is_reserved_name(text)  0049_reserved_names.sql
-- is_same_timer(shardclock.timers, shardclock.timers)  0005_schedule.sql
-- is_too_deep(jsonb)  0051_limits_of_processes.sql
-- judged_cron_day(text, boolean)  0049_reserved_names.sql
-- judged_cron_item(text, text, integer, integer, integer, text[], text)  0049_reserved_names.sql
-- judged_duration(text)  0049_reserved_names.sql
-- judged_moment(text, text)  0049_reserved_names.sql
-- keep_hold()  0055_reasons.sql
-- keys_of_clients(bigint[])  0049_reserved_names.sql
-- kind_of_target(text)  0018_processes.sql
-- late_since(timestamp with time zone, timestamp with time zone, timestamp with time zone, bigint)  0001_timers.sql
-- later(timestamp with time zone, interval, text)  0004_dates.sql
-- lock_delivery(bigint)  0026_deliveries_in_hand.sql
-- lock_job_names(boolean)  0043_jobs_declared_alone.sql
-- lock_message(text, text, text)  0018_processes.sql
-- log_horizon()  0002_command_log.sql
-- log_of(shardclock.timers, text, timestamp with time zone, jsonb)  0006_verbs.sql
-- log_of_job(text, text, bigint, jsonb)  0011_jobs.sql
-- log_replaced(shardclock.timers, bigint)  0053_runs_and_queues.sql
-- lost_service_task(bigint, integer, text)  0036_programs.sql
-- mark_log_writer()  0002_command_log.sql
-- mend_job_waits(bigint)  0030_what_jobs_leave.sql
-- move_timers(bigint[], timestamp with time zone, interval, text)  0053_runs_and_queues.sql
-- move_tokens(bigint, bigint[], text[], text)  0018_processes.sql
-- named_clock(timestamp with time zone, text)  0004_dates.sql
-- named_target(shardclock.timers, shardclock.timers)  0018_processes.sql
-- never_occurs(text)  0049_reserved_names.sql
-- new_timer(timestamp with time zone, text, text, text, text, jsonb, text, text, text, bigint, bigint, text, text)  0049_reserved_names.sql
-- next_start(double precision, timestamp with time zone)  0011_jobs.sql
-- note_key_prefix()  0037_instances_of_clients.sql
-- open_group(text, integer)  0008_consumers.sql
-- open_starts(bigint, boolean)  0018_processes.sql
-- operate_timer(text, bigint, text, text, timestamp with time zone, text, text, text)  0049_reserved_names.sql
-- origin()  0003_cluster.sql
-- out_of_range(timestamp with time zone, text)  0001_timers.sql
-- parse_delay(text, text)  0049_reserved_names.sql
-- pause_rows(bigint[], text, boolean)  0049_reserved_names.sql
-- pause_timer(bigint, text, text, text)  0006_verbs.sql
-- pause_timers(bigint[], text)  0049_reserved_names.sql
-- pending_key(bigint, text, text)  0006_verbs.sql
-- period_refusal(text, text)  0049_reserved_names.sql
-- plain_length(text)  0004_dates.sql
-- plan_job(shardclock.jobs, timestamp with time zone)  0011_jobs.sql
-- publish_message(text, text, jsonb, text, interval)  0047_messages_passed_over.sql
-- quota_of(text, text)  0051_limits_of_processes.sql
-- read_log(bigint, integer, integer, integer, bigint)  0002_command_log.sql
-- record_act(text, text, text, text, text, jsonb, text, text)  0017_audit.sql
-- redrive_dead_letters(bigint[], integer)  0053_runs_and_queues.sql
-- refuse_deep_config()  0051_limits_of_processes.sql
-- refused_job(jsonb)  0049_reserved_names.sql
-- rehome_log_default()  0002_command_log.sql
-- remove_job(text)  0030_what_jobs_leave.sql
-- repeat_refusal(text, text)  0049_reserved_names.sql
-- request_slot(timestamp with time zone)  0013_api.sql
-- reschedule_timer(bigint, text, text, timestamp with time zone, text, text, text, text, text)  0049_reserved_names.sql
-- reserved(text, text)  0049_reserved_names.sql
-- reserved_rule(shardclock.timers)  0049_reserved_names.sql
-- reset_group(text, bigint, integer)  0008_consumers.sql
-- resolve_incident(bigint, bigint, text)  0051_limits_of_processes.sql
-- resume_job(shardclock.jobs)  0011_jobs.sql
-- resume_rows(bigint[], boolean)  0049_reserved_names.sql
-- resume_timer(bigint, text, text)  0006_verbs.sql
-- resume_timers(bigint[])  0049_reserved_names.sql
-- retry_deliveries(bigint[])  0026_deliveries_in_hand.sql
-- retry_delivery(bigint)  0014_targets.sql
-- room_of(text, text)  0051_limits_of_processes.sql
-- rule_refusal(text, text)  0049_reserved_names.sql
-- run_job(text, jsonb)  0053_runs_and_queues.sql
-- run_timer(bigint, text, text, text)  0006_verbs.sql
-- run_timers(bigint[], text)  0053_runs_and_queues.sql
-- schedule_timer(timestamp with time zone, text, text, text, text, jsonb, text, text, text, bigint, bigint, text, text, text)  0005_schedule.sql
-- send_signal(bigint, text, jsonb, bigint, text)  0037_instances_of_clients.sql
-- set_variables(bigint, jsonb, bigint, text)  0018_processes.sql
-- shift_length(text)  0004_dates.sql
-- shift_timers(bigint[], text, text)  0049_reserved_names.sql
-- shown(text)  0049_reserved_names.sql
-- signal_instance(bigint, text, jsonb, bigint)  0031_who_did_it.sql
-- start_process(text, jsonb, text, integer, text, text)  0051_limits_of_processes.sql
-- stop_job(shardclock.jobs, text)  0011_jobs.sql
-- target_of_client(text)  0049_reserved_names.sql
-- tenant_of_instance(bigint, text)  0051_limits_of_processes.sql
-- tend_jobs(bigint)  0011_jobs.sql
-- throw_service_task_error(bigint, integer, text, text, jsonb, text)  0018_processes.sql
-- throw_signal(text, jsonb, text)  0050_turns_of_engines.sql
-- to_utc(timestamp without time zone, text)  0004_dates.sql
-- too_deep(text, jsonb)  0051_limits_of_processes.sql
-- unknown_job(text, text)  0011_jobs.sql
-- unknown_target(text, text)  0011_jobs.sql
-- used_of(text, text, bigint)  0051_limits_of_processes.sql
-- waits_for_old_clock(text, interval)  0030_what_jobs_leave.sql
-- was_run(text, bigint, text, text)  0006_verbs.sql
-- with_failure(jsonb, integer, text, bigint, timestamp with time zone)  0009_deliveries.sql
-- withdraw_jobs(text[])  0012_job_verbs.sql
-- write_timer(shardclock.timers, text, boolean)  0020_policies.sql
-- zone_refusal(text)  0049_reserved_names.sql
