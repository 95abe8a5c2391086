-- Completes a task.
--
-- in:    :task_key bigint, :variables jsonb, :tenant_id text or null (null: of any), :assignee text or null: who completes
--        it (null: whoever has it)
-- out:   outcome text: COMPLETED; TAKEN: another has it; COMPLETED_BEFORE or CANCELED: how it has ended; NOT_FOUND
-- locks: what it changes, and the signal that it sends
-- index: by key
select shardclock.complete_task(
    :task_key::bigint, :variables::jsonb, :tenant_id::text, assignee => :assignee::text
) as outcome
