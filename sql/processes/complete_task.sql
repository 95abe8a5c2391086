-- Completes a task.
--
-- in:    :task_key bigint, :variables jsonb, :tenant_id text or null (null: of any)
-- out:   outcome text: COMPLETED; COMPLETED_BEFORE or CANCELED: how it has ended; NOT_FOUND
-- locks: what it changes, and the signal that it sends
-- index: by key
select shardclock.complete_task(:task_key::bigint, :variables::jsonb, :tenant_id::text) as outcome
