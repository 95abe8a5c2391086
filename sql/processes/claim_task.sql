-- Gives a task to a person, unless another has it; or takes it from whoever has it.
--
-- in:    :task_key bigint, :assignee text or null (null: it is given back), :tenant_id text or null (null: of any)
-- out:   outcome text: ASSIGNED, CREATED (given back) or TAKEN; COMPLETED_BEFORE or CANCELED: how it has ended; NOT_FOUND
-- locks: what it changes
-- index: by key
select shardclock.claim_task(:task_key::bigint, :assignee::text, :tenant_id::text) as outcome
