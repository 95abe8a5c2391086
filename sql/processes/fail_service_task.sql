-- Says that a service task that the caller has taken could not be done.
--
-- in:    :task_key bigint, :claim integer, :reason text, :retries integer or null (null: what the model has left),
--        :retry_after interval, :tenant_id text or null (null: of any)
-- out:   outcome text: RETRIED, DEAD or NOT_FOUND
-- locks: the task, and the signal that it sends
-- index: deliveries_pkey
select shardclock.fail_service_task(
    :task_key::bigint, :claim::integer, :reason::text, :retries::integer, :retry_after::interval, :tenant_id::text
) as outcome
