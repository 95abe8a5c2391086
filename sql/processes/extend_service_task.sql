-- Extends the lease of a service task that the caller has taken.
--
-- in:    :task_key bigint, :claim integer, :lease interval, :tenant_id text or null (null: of any)
-- out:   outcome text: EXTENDED, or what became of a task that is the caller's no more, as the function tells
-- locks: the task
-- index: deliveries_pkey; of a task that is gone command_log_by_timer_key
select shardclock.extend_service_task(
    :task_key::bigint, :claim::integer, :lease::interval, :tenant_id::text
) as outcome
