-- 0050_turns_of_engines

-- One instance may have thousands of tokens, each with a timer. An engine finds the timers of one token by this index. The
-- key is an expression, so that no plan takes timers_by_process_instance, which would read the timers of all tokens.
create index timers_by_token on shardclock.timers ((process_instance_key + 0), element_instance_key)
    where (target = 'process:instance') is true;

-- An engine reads the cancellations of a tenant before all other signals of the tenant.
create index deliveries_of_cancellations on shardclock.deliveries (tenant_id, next_attempt_at, (timer_key + 0))
    where (target = 'process:instance' and payload ->> 'kind' = 'cancel') is true;

-- The instance without a parent, below which a called instance is; null for that instance itself. An engine counts the
-- called instances below a root that live, and those that are about to begin.
alter table shardclock.instances add column root_key bigint;
create index instances_by_root on shardclock.instances (root_key)
    where (root_key is not null and ended_at is null) is true;
create index deliveries_by_root on shardclock.deliveries ((payload ->> 'root'))
    where (target = 'process:instance' and name like 'child:%' and length(payload ->> 'root') < 20) is true;
