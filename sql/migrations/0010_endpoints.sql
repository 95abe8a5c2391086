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
