-- Completes a service task that the caller has taken.
--
-- in:    :task_key bigint, :claim integer, :variables jsonb, :tenant_id text or null (null: of any)
-- out:   outcome text: DELIVERED or NOT_FOUND
-- locks: the task, and the signal that it sends
-- index: deliveries_pkey
select shardclock.complete_service_task(
    :task_key::bigint, :claim::integer, :variables::jsonb, :tenant_id::text
) as outcome
