-- Moves tokens of an instance: some end, and others begin.
--
-- in:    :instance_key bigint, :terminated bigint[], :begun text[], :tenant_id text or null (null: of any)
-- out:   outcome text: SENT or NOT_FOUND
-- locks: what it changes, and the signal that it sends
-- index: by key
select shardclock.move_tokens(:instance_key::bigint, :terminated::bigint[], :begun::text[], :tenant_id::text) as outcome
