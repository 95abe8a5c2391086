-- A quota of pending schedules for each tenant. Gateways hold it: docs/decisions/0046-quotas.md.
alter table shardclock.tenants
    add column schedules_max bigint,
    add constraint schedules_max_is_not_negative check (schedules_max >= 0);

comment on column shardclock.tenants.schedules_max is 'Pending schedules; null: 20,000.';

-- Plain timers are not in it, so neither their creation nor their firing writes it.
create index schedules_by_tenant on shardclock.timers (tenant_id) where schedule is not null;
