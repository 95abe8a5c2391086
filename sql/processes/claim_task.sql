-- Gives a task to a person, unless another has it.
--
-- in:    :task_key bigint, :assignee text or null (null: it is given back), :tenant_id text or null (null: of any)
-- out:   outcome text: ASSIGNED, TAKEN or NOT_FOUND
-- locks: what it changes, and the signal that it sends
-- index: by key
select shardclock.claim_task(:task_key::bigint, :assignee::text, :tenant_id::text) as outcome
