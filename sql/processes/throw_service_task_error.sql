-- Ends a service task that the caller has taken with an error of BPMN.
--
-- in:    :task_key bigint, :claim integer, :code text, :reason text or null, :variables jsonb,
--        :tenant_id text or null (null: of any)
-- out:   outcome text: DISCARDED, or what became of a task that is the caller's no more, as the function tells
-- locks: the task, and the signal that it sends
-- index: deliveries_pkey; of a task that is gone command_log_by_timer_key
select shardclock.throw_service_task_error(
    :task_key::bigint, :claim::integer, :code::text, :reason::text, :variables::jsonb, :tenant_id::text
) as outcome
