-- What a tenant of the HTTP API may have. A tenant without a row has the limits of the gateways' settings.

create table shardclock.tenants (
    tenant_id text not null,
    timers_max bigint,
    payload_bytes_max bigint,
    waiters_max bigint,
    endpoints_max bigint,
    rate_per_s double precision,
    changed_at timestamptz not null default now(),

    constraint tenants_pkey primary key (tenant_id),
    constraint tenant_id_is_1_to_200_characters check (
        length(tenant_id) between 1 and 200 and tenant_id !~ '[[:cntrl:]]'
    ),
    constraint limits_are_not_negative check (
        least(timers_max, payload_bytes_max, waiters_max, endpoints_max) >= 0
    ),
    constraint rate_is_within_bounds check (rate_per_s >= 0.001 and rate_per_s <= 1000000)
);

comment on table shardclock.tenants is
    'What tenants of the HTTP API may have. One without a row has the limits of the gateways'' settings.';
comment on column shardclock.tenants.timers_max is 'Pending timers, paused ones counted; null: no limit.';
comment on column shardclock.tenants.payload_bytes_max is
    'Bytes of the payloads of its pending timers, as JSON text; null: no limit.';
comment on column shardclock.tenants.waiters_max is
    'Callers who wait for an end at the same time, at each gateway; null: no limit.';
comment on column shardclock.tenants.endpoints_max is 'Endpoints, disabled ones counted; null: no limit.';
comment on column shardclock.tenants.rate_per_s is 'Writes a second, at each gateway; null: no limit.';
