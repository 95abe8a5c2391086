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

-- Null if a timer of this tenant may name the target; else the sentence that says why not.
create function shardclock.unknown_target(target text, tenant_id text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    withdrawn_at timestamptz;
    disabled_at timestamptz;
    disabled_why text;
begin
    if unknown_target.target = 'log' then
        return null;
    end if;
    if unknown_target.target like 'webhook:%' then
        select e.disabled_at, e.disabled_why into disabled_at, disabled_why
        from shardclock.endpoints e
        where e.tenant_id = unknown_target.tenant_id and e.name = substr(unknown_target.target, 9);
        if found and disabled_at is null then
            return null;
        end if;
        if found then
            return format(
                'target "%s" was disabled at %s (%s): enable it (shardclock endpoints enable)',
                left(target, 60), disabled_at, disabled_why
            );
        end if;
    else
        select h.withdrawn_at into withdrawn_at from shardclock.handlers h where h.target = unknown_target.target;
        if found and withdrawn_at is null then
            return null;
        end if;
        if found then
            return format(
                'target "%s" was withdrawn at %s: start the cluster with the app that has it',
                left(target, 60), withdrawn_at
            );
        end if;
    end if;
    return format(
        'target "%s" is unknown: %s', left(target, 60),
        coalesce(
            (
                select 'the targets are log, ' || string_agg(t.target, ', ' order by t.target)
                from (
                    (
                        select h.target
                        from shardclock.handlers h
                        where h.withdrawn_at is null
                        order by h.target
                        limit 20
                    )
                    union all
                    (
                        select 'webhook:' || e.name
                        from shardclock.endpoints e
                        where e.tenant_id = unknown_target.tenant_id and e.disabled_at is null
                        order by e.name
                        limit 20
                    )
                ) t
            ),
            'the only target is log; an app has more (shardclock up --app), '
            'and so has a tenant with endpoints (shardclock endpoints add)'
        )
    );
end
$$;

comment on function shardclock.unknown_target is
    'Internal: Says why a tenant''s timer can''t have a target; null: it can.';

create function shardclock.has_targets()
returns boolean
language sql
stable
begin atomic
    select exists (select from shardclock.handlers h where h.withdrawn_at is null)
        or exists (select from shardclock.endpoints)
        -- A delivery whose target was removed becomes a dead letter, and only a worker does that.
        or exists (select from shardclock.deliveries);
end;

comment on function shardclock.has_targets is
    'Internal: Says whether a timer can have a target but the log, or a delivery is on its way: else no workers are wanted.';
