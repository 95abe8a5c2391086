-- What the HTTP API stores: the keys by which it knows its callers, and what it answered to idempotent requests.

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

comment on table shardclock.api_keys is 'The keys by which the HTTP API knows its callers; also those that have ended.';
comment on column shardclock.api_keys.tenant_id is 'Whose key it is; null: an operator''s, for all tenants.';
comment on column shardclock.api_keys.prefix is 'What is shown of the key, and what it is found by.';
comment on column shardclock.api_keys.digest is 'The SHA-256 of the whole key: the key itself is stored nowhere.';
comment on column shardclock.api_keys.scopes is 'What it allows; each scope includes those before it.';
comment on column shardclock.api_keys.expires_at is 'From when on it is refused; null: it never expires.';
comment on column shardclock.api_keys.revoked_at is 'When somebody revoked it: it is refused; null: nobody has.';

-- In which of three tables a request is stored: today's, yesterday's, or the one that is emptied next. Why three:
-- docs/decisions/0044-idempotent-requests.md.
create function shardclock.request_slot(moment timestamptz)
returns smallint
language sql
immutable
begin atomic
    select (((moment at time zone 'UTC')::date - date '1970-01-01') % 3)::smallint;
end;

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

-- For `forget_requests`, which asks for the newest.
create index idempotent_requests_by_age on shardclock.idempotent_requests (created_at);

comment on table shardclock.idempotent_requests is
    'What the HTTP API answered to requests with an idempotency key: for 24 hours the same request gets it again.';
comment on column shardclock.idempotent_requests.slot is 'The UTC day of created_at, counted from 1970, modulo 3.';
comment on column shardclock.idempotent_requests.fingerprint is
    'A digest of what was asked: the same key with other parameters is another request.';

-- A transaction that reads must lock the slots of today and yesterday alone. A lock on the third, held until the
-- caller's transaction ends, would keep `forget_requests` away. Only a plan that is made for the values at hand leaves
-- a partition out before it locks it: a cached plan locks all three.
create function shardclock.find_requests(tenants text[], keys text[], moment timestamptz)
returns table (number bigint, fingerprint bytea, status smallint, body jsonb)
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_custom_plan
as $$
declare
    today constant smallint := shardclock.request_slot(moment);
    yesterday constant smallint := shardclock.request_slot(moment - interval '24 hours');
begin
    return query
    select w.number, r.fingerprint, r.status, r.body
    from unnest(tenants, keys) with ordinality as w (tenant_id, idempotency_key, number)
    cross join lateral (
        select i.created_at, i.fingerprint, i.status, i.body
        from shardclock.idempotent_requests i
        where i.slot in (today, yesterday) and i.tenant_id = w.tenant_id and i.idempotency_key = w.idempotency_key
        offset 0 -- or the planner, before the first ANALYZE, reads all of the two days by their age
    ) r
    where r.created_at > moment - interval '24 hours'
    -- A clock that was set back may have left two: the newer one comes last.
    order by r.created_at;
end
$$;

-- Empties the slot that is neither today's nor yesterday's. Its rows are of the day before yesterday, so all of them
-- are older than 24 hours. It waits until they are older than 36 hours: the half day is for a clock that was wrong, and
-- for transactions that still read that slot at midnight. The other half of the day is left for it to be called.
create function shardclock.forget_requests()
returns integer
language plpgsql
-- It runs as its owner: the role of gateways may empty this slot, and truncate nothing else.
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    partition_name constant text := 'idempotent_requests_' || (shardclock.request_slot(now()) + 1) % 3;
    ask constant text := format('select max(r.created_at) from shardclock.%I r', partition_name);
    newest timestamptz;
begin
    execute ask into newest;
    if newest is null or newest > now() - interval '36 hours' then
        return 0;
    end if;
    -- This waits for no lock. A dump may keep the slot locked for hours: so try now, or later again.
    execute format('lock table shardclock.%I in access exclusive mode nowait', partition_name);
    -- If the clock was set, a transaction that began before may have written to the slot since.
    execute ask into newest;
    if newest > now() - interval '36 hours' then
        return 0;
    end if;
    execute format('truncate shardclock.%I', partition_name);
    return 1;
end
$$;
