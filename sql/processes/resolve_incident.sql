-- Resolves an incident: its token goes on where it stopped.
--
-- in:    :instance_key bigint, :token bigint, :tenant_id text or null (null: of any)
-- out:   outcome text: SENT or NOT_FOUND
-- locks: what it changes, and the signal that it sends
-- index: by key
select shardclock.resolve_incident(:instance_key::bigint, :token::bigint, :tenant_id::text) as outcome
