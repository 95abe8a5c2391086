-- Extends the lease of a service task that the caller has taken.
--
-- in:    :task_key bigint, :claim integer, :lease interval, :tenant_id text or null (null: of any)
-- out:   outcome text: EXTENDED or NOT_FOUND
-- locks: the task
-- index: deliveries_pkey
select shardclock.extend_service_task(
    :task_key::bigint, :claim::integer, :lease::interval, :tenant_id::text
) as outcome
