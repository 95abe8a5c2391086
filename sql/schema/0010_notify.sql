-- Events for operators, and the endpoints that subscribe to them: docs/decisions/0088-operator-events.md. The triggers
-- that write events are in the files of their tables.

create table shardclock.event_subscriptions (
    tenant_id text not null,
    endpoint text not null,
    kinds text[] not null,
    failures_min integer not null default 3,
    text_only boolean not null default false,
    changed_at timestamptz not null default now(),

    constraint event_subscriptions_pkey primary key (tenant_id, endpoint),
    constraint subscribed_endpoint_fkey foreign key (tenant_id, endpoint)
    references shardclock.endpoints (tenant_id, name) on delete cascade,
    constraint kinds_are_known check (
        array_ndims(kinds) = 1 and cardinality(kinds) > 0
        and kinds <@ array[
            'delivery.dead', 'endpoint.disabled', 'process.incident', 'schedule.paused', 'quota.reached', 'job.failed',
            'job.late', 'cluster.lag', 'cluster.takeover', 'cluster.hold'
        ]
    ),
    -- Jobs and the cluster belong to the whole installation; their events have this tenant.
    constraint kinds_are_of_the_tenant check (
        tenant_id = 'default'
        or not kinds && array['job.failed', 'job.late', 'cluster.lag', 'cluster.takeover', 'cluster.hold']
    ),
    constraint failures_min_is_1_to_1000 check (failures_min between 1 and 1000)
);

comment on table shardclock.event_subscriptions is 'The endpoints that get events for operators.';
comment on column shardclock.event_subscriptions.kinds is 'The kinds of events that the endpoint gets.';
comment on column shardclock.event_subscriptions.failures_min is
    'For the kind job.failed: a failed run is an event if at least this many runs in a row have failed.';
comment on column shardclock.event_subscriptions.text_only is
    'Whether the webhook body has only the text, for receivers that refuse unknown fields.';

-- The table is empty most of the time, because the leading coordinator converts the events to deliveries once a second.
create table shardclock.operator_events (
    event_id bigint generated always as identity,
    happened_at timestamptz not null default clock_timestamp(),
    failures integer,
    tenant_id text not null,
    kind text not null,
    subject text not null,
    sentence text not null,
    detail jsonb not null default '{}',

    constraint operator_events_pkey primary key (event_id)
);

comment on table shardclock.operator_events is
    'Events of subscribed kinds that the leading coordinator has not converted to deliveries yet.';
comment on column shardclock.operator_events.failures is 'For the kind job.failed: the failed runs in a row.';
comment on column shardclock.operator_events.subject is
    'The target, endpoint, job, process, schedule, resource or role of the event.';
comment on column shardclock.operator_events.detail is 'The fields of the event, for programs.';

create table shardclock.event_throttles (
    tenant_id text not null,
    endpoint text not null,
    kind text not null,
    subject text not null,
    sent_at timestamptz not null,
    waiting integer not null,
    event jsonb,

    constraint event_throttles_pkey primary key (tenant_id, endpoint, kind, subject),
    constraint throttled_subscription_fkey foreign key (tenant_id, endpoint)
    references shardclock.event_subscriptions (tenant_id, endpoint) on delete cascade
);

comment on table shardclock.event_throttles is
    'For each endpoint, kind and subject, the time of the last delivery; a row is deleted five minutes after the delivery.';
comment on column shardclock.event_throttles.waiting is 'The number of events since the last delivery.';
comment on column shardclock.event_throttles.event is 'The newest waiting event; null: no event waits.';
