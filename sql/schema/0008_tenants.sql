-- Quotas of tenants. For a tenant without a row, the limits in the gateways' settings apply.

create table shardclock.tenants (
    tenant_id text not null,
    timers_max bigint,
    payload_bytes_max bigint,
    waiters_max bigint,
    endpoints_max bigint,
    rate_per_s double precision,
    changed_at timestamptz not null default now(),
    -- Quotas of the rows that processes keep, for every interface: docs/decisions/0071-quotas-of-processes.md.
    instances_max bigint,
    tasks_max bigint,
    messages_max bigint,
    definitions_max bigint,
    -- A quota of pending schedules for each tenant. Gateways enforce the quota: docs/decisions/0046-quotas.md.
    schedules_max bigint,

    constraint tenants_pkey primary key (tenant_id),
    constraint tenant_id_is_1_to_200_characters check (
        length(tenant_id) between 1 and 200 and tenant_id !~ '[[:cntrl:]]'
    ),
    constraint limits_are_not_negative check (
        least(timers_max, payload_bytes_max, waiters_max, endpoints_max) >= 0
    ),
    constraint rate_is_within_bounds check (rate_per_s >= 0.001 and rate_per_s <= 1000000),
    constraint limits_of_processes_are_not_negative check (
        least(instances_max, tasks_max, messages_max, definitions_max) >= 0
    ),
    constraint schedules_max_is_not_negative check (schedules_max >= 0)
);

comment on table shardclock.tenants is
    'The limits of the HTTP API''s tenants. For a tenant without a row, the limits in the gateways'' settings apply.';
comment on column shardclock.tenants.timers_max is 'Pending and paused timers; null: no limit.';
comment on column shardclock.tenants.payload_bytes_max is
    'Bytes of the payloads of pending timers, as JSON text; null: no limit.';
comment on column shardclock.tenants.waiters_max is
    'Callers that wait for a timer''s end at the same time, at each gateway; null: no limit.';
comment on column shardclock.tenants.endpoints_max is 'Endpoints, including disabled endpoints; null: no limit.';
comment on column shardclock.tenants.rate_per_s is 'Writes a second, at each gateway; null: no limit.';
comment on column shardclock.tenants.instances_max is 'Instances of processes that have not ended; null: 1,000,000.';
comment on column shardclock.tenants.tasks_max is 'Open tasks of persons; null: 1,000,000.';
comment on column shardclock.tenants.messages_max is 'Messages that are kept for later tokens; null: 100,000.';
comment on column shardclock.tenants.definitions_max is 'Versions of processes that are not deleted; null: 10,000.';
comment on column shardclock.tenants.schedules_max is 'Pending schedules; null: 20,000.';

create table shardclock.tenant_usage (
    tenant_id text not null,
    resource text not null,
    used bigint not null default 0,
    counted_at timestamptz not null default '1970-01-01 00:00:00+00',
    asked_at timestamptz not null default now(),
    had_quota boolean not null default false,

    constraint tenant_usage_pkey primary key (tenant_id, resource)
)
with (fillfactor = 50);

comment on table shardclock.tenant_usage is
    'The last counts of the usage of tenants with large quotas; a row exists while an engine or a client reads it.';
comment on column shardclock.tenant_usage.asked_at is
    'The time of an engine''s last read, exact to ten minutes. A row with a usage of zero is deleted if no engine has read it for an hour.';
comment on column shardclock.tenant_usage.had_quota is
    'For the resource `starts`: whether the tenant had quota for another instance at the last count. Until the next count is due, a start reads this value instead of the quota.';
