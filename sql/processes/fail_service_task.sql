-- Says that a service task that the caller has taken could not be done.
--
-- in:    :task_key bigint, :claim integer, :reason text, :retries integer or null (null: what the model has left),
--        :retry_after interval, :tenant_id text or null (null: of any)
-- out:   outcome text: RETRIED or DEAD, or what became of a task that is the caller's no more, as the function tells
-- locks: the task, and the signal that it sends
-- index: deliveries_pkey; of a task that is gone command_log_by_timer_key
select shardclock.fail_service_task(
    :task_key::bigint, :claim::integer, :reason::text, :retries::integer, :retry_after::interval, :tenant_id::text
) as outcome
