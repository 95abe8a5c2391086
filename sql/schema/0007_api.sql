-- The API keys of the HTTP API, its stored responses to idempotent requests, the audit log of operators' acts, and bulk
-- operations.
--
-- needs: request_slot

create table shardclock.api_keys (
    key_id bigint generated always as identity,
    tenant_id text,
    name text not null,
    prefix text not null,
    digest bytea not null,
    scopes text[] not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz,

    constraint api_keys_pkey primary key (key_id),
    constraint api_keys_by_prefix unique (prefix),
    constraint tenant_id_is_1_to_200_characters check (
        length(tenant_id) between 1 and 200 and tenant_id !~ '[[:cntrl:]]'
    ),
    constraint name_is_1_to_100_characters check (length(name) between 1 and 100 and name !~ '[[:cntrl:]]'),
    constraint prefix_is_base32 check (prefix ~ '^[a-z2-7]{8}$'),
    constraint digest_is_of_sha256 check (octet_length(digest) = 32),
    constraint scopes_are_known check (
        array_ndims(scopes) = 1 and cardinality(scopes) > 0
        and scopes <@ array['read', 'write', 'operate', 'admin']
    ),
    constraint expires_after_it_was_made check (expires_at >= created_at)
);

create index api_keys_by_name on shardclock.api_keys (name, tenant_id);

comment on table shardclock.api_keys is 'The keys that identify the HTTP API''s callers, including ended keys.';
comment on column shardclock.api_keys.tenant_id is 'The tenant; null: an operator''s key, for all tenants.';
comment on column shardclock.api_keys.prefix is 'The first part of the key, for display and for search.';
comment on column shardclock.api_keys.digest is 'The SHA-256 of the whole key; the key itself is not stored.';
comment on column shardclock.api_keys.scopes is 'The allowed scopes; each scope includes the scopes before it.';
comment on column shardclock.api_keys.expires_at is 'The time at which the key expires; null: the key never expires.';
comment on column shardclock.api_keys.revoked_at is 'The time of the revocation; null: the key was not revoked.';

create table shardclock.console_sessions (
    digest bytea not null,
    key_id bigint,
    issuer text,
    subject text,
    name text,
    groups text[],
    created_at timestamptz not null,
    expires_at timestamptz not null,

    constraint console_sessions_pkey primary key (digest),
    constraint digest_is_of_sha256 check (octet_length(digest) = 32),
    constraint it_stands_for_a_key_or_a_person check (
        num_nonnulls(issuer, subject, name, groups) = case when key_id is null then 4 else 0 end
    ),
    constraint name_is_1_to_100_characters check (length(name) between 1 and 100 and name !~ '[[:cntrl:]]'),
    constraint texts_are_short check (greatest(length(issuer), length(subject)) <= 255),
    constraint expires_after_it_was_made check (expires_at > created_at)
);

create index console_sessions_by_key on shardclock.console_sessions (key_id, created_at) where key_id is not null;

create index console_sessions_by_person on shardclock.console_sessions (issuer, subject, created_at)
where subject is not null;

create index console_sessions_by_end on shardclock.console_sessions (expires_at);

comment on table shardclock.console_sessions is
    'The sessions of the console; each session belongs to an API key, or to a person of the identity provider.';
comment on column shardclock.console_sessions.digest is
    'The SHA-256 of the token in the browser''s cookie; the token itself is not stored.';
comment on column shardclock.console_sessions.key_id is
    'The API key; the session ends together with the key; null: the session belongs to a person.';
comment on column shardclock.console_sessions.subject is
    'The person''s identifier, which the issuer never gives to another person.';
comment on column shardclock.console_sessions.groups is
    'The person''s groups at the sign-in; the gateway''s settings map groups to scopes and tenants.';

create table shardclock.idempotent_requests (
    created_at timestamptz not null,
    slot smallint not null,
    status smallint not null,
    tenant_id text not null,
    idempotency_key text not null,
    fingerprint bytea not null,
    body jsonb not null,

    constraint idempotent_requests_pkey primary key (slot, tenant_id, idempotency_key),
    constraint slot_is_its_day_s check (slot = shardclock.request_slot(created_at)),
    constraint status_is_of_http check (status between 100 and 599),
    constraint idempotency_key_is_1_to_255_characters check (length(idempotency_key) between 1 and 255),
    constraint fingerprint_is_of_sha256 check (octet_length(fingerprint) = 32)
)
partition by list (slot);

create table shardclock.idempotent_requests_0 partition of shardclock.idempotent_requests for values in (0);

create table shardclock.idempotent_requests_1 partition of shardclock.idempotent_requests for values in (1);

create table shardclock.idempotent_requests_2 partition of shardclock.idempotent_requests for values in (2);

-- `forget_requests` reads the newest request by this index.
create index idempotent_requests_by_age on shardclock.idempotent_requests (created_at);

comment on table shardclock.idempotent_requests is
    'The HTTP API''s responses to requests with an idempotency key; for 24 hours, a repeated request gets the same response.';
comment on column shardclock.idempotent_requests.slot is 'The UTC day of created_at, counted from 1970, modulo 3.';
comment on column shardclock.idempotent_requests.fingerprint is
    'A digest of the request''s content; a request with the same key and other content is refused.';

-- One record for each act of an operator. Only record_act may write to this table, as the owner.
create table shardclock.audit (
    act_id bigint generated always as identity,
    recorded_at timestamptz not null default clock_timestamp(),
    role text not null,
    interface text not null,
    key_prefix text,
    key_name text,
    subject text,
    tenant_id text,
    verb text not null,
    parameters jsonb not null,
    outcome text not null,
    address text,

    constraint audit_pkey primary key (act_id),
    constraint interface_is_known check (interface in ('api', 'cli', 'console')),
    constraint outcome_is_known check (outcome in ('done', 'not done', 'failed')),
    constraint verb_is_1_to_100_characters check (length(verb) between 1 and 100),
    constraint parameters_are_a_short_object check (
        jsonb_typeof(parameters) = 'object' and octet_length(parameters::text) <= 16384
    ),
    constraint texts_are_short check (
        greatest(length(key_prefix), length(key_name), length(tenant_id), length(address)) <= 200 and length(subject) <= 255
    )
);

create index audit_by_age on shardclock.audit (recorded_at, act_id);

comment on table shardclock.audit is 'The acts of operators, one record for each act, kept for 400 days.';
comment on column shardclock.audit.role is 'The database role of the login: a gateway''s role, or an operator''s own.';
comment on column shardclock.audit.interface is
    'api: the HTTP API; cli: the command line; console: the pages of a gateway.';
comment on column shardclock.audit.key_prefix is 'The prefix of the API key; null: a person, or no key was needed.';
comment on column shardclock.audit.key_name is 'The name of the API key, or the person''s name.';
comment on column shardclock.audit.subject is
    'The person''s unique identifier at the identity provider; null: no person has signed in.';
comment on column shardclock.audit.tenant_id is 'The tenant of the act; null: the whole installation.';
comment on column shardclock.audit.parameters is 'The parameters of the act; … replaces a value that may be secret.';
comment on column shardclock.audit.outcome is
    'done; not done: the act was refused, or there was nothing to do; failed: the act may be done partially.';
comment on column shardclock.audit.address is 'The caller''s address, if the program or Postgres knows it.';

-- One row for each bulk change. No role may insert a value for the columns `role`; the default is the login. A gateway
-- continues only the operations of its own login, so that no other login can use the gateway's rights through these
-- tables.
create table shardclock.operations (
    operation_id bigint generated always as identity,
    request_id uuid not null,
    begun_at timestamptz not null default now(),
    ended_at timestamptz,
    due_at timestamptz not null,
    matched bigint not null,
    expected bigint,
    left_out bigint not null default 0,
    changed bigint not null default 0,
    unchanged_reasons jsonb not null default '{}',
    by_operator boolean not null,
    state text not null default 'RUNNING',
    tenant_id text,
    verb text not null,
    filter jsonb not null,
    change jsonb not null,
    role text not null default session_user,
    interface text not null,
    key_prefix text,
    key_name text,
    error text,

    constraint operations_pkey primary key (operation_id),
    constraint operations_by_request unique (request_id),
    constraint interface_is_known check (interface in ('api', 'cli', 'console')),
    constraint state_is_known check (state in ('RUNNING', 'DONE', 'CANCELED', 'FAILED')),
    constraint ended_unless_it_runs check ((state = 'RUNNING') = (ended_at is null)),
    constraint counts_are_not_negative check (least(matched, expected, left_out, changed) >= 0),
    constraint reasons_are_few check (length(unchanged_reasons::text) <= 1000),
    constraint verb_is_1_to_100_characters check (length(verb) between 1 and 100)
);

create index operations_by_tenant on shardclock.operations (tenant_id);

create index operations_by_end on shardclock.operations (ended_at);

create index operations_due on shardclock.operations (due_at) where state = 'RUNNING';

comment on table shardclock.operations is 'Bulk changes and their progress, kept for 400 days after their end.';
comment on column shardclock.operations.request_id is
    'The caller''s id for the operation; a repeated request to begin it finds the operation.';
comment on column shardclock.operations.due_at is 'The time after which any gateway may continue the operation.';
comment on column shardclock.operations.matched is 'The number of found rows.';
comment on column shardclock.operations.expected is 'The count of the dry run; null: there was no dry run.';
comment on column shardclock.operations.left_out is 'Matching rows that the verb can''t change.';
comment on column shardclock.operations.changed is 'The number of changed rows.';
comment on column shardclock.operations.unchanged_reasons is
    'The number of unchanged rows by reason: the code of a refusal, or nothing_to_change.';
comment on column shardclock.operations.by_operator is
    'Whether an operator began the operation; then tenants can''t read the operator''s name.';
comment on column shardclock.operations.tenant_id is 'The tenant of the rows; null: all tenants.';
comment on column shardclock.operations.change is 'The parameters of the verb, such as reason and shift.';
comment on column shardclock.operations.role is 'The database role of the login that began the operation.';
comment on column shardclock.operations.error is 'The refusal that ended the operation, or the last failure.';

-- The keys of the rows that an operation has not changed yet, page by page; the transaction that changes a page deletes
-- its row.
create table shardclock.operation_pages (
    operation_id bigint not null,
    page bigint not null,
    tenant_id text,
    role text not null default session_user,
    keys bigint[] not null,

    constraint operation_pages_pkey primary key (operation_id, page),
    constraint operation_exists foreign key (operation_id) references shardclock.operations on delete cascade
);

comment on table shardclock.operation_pages is 'The keys of rows that operations have not changed yet.';
