-- Cancels an instance.
--
-- in:    :instance_key bigint, :tenant_id text or null (null: of any)
-- out:   outcome text: SENT; CANCELED, COMPLETED or ERROR: how it has ended; NOT_FOUND
-- locks: what it changes, and the signal that it sends
-- index: by key
select shardclock.cancel_instance(:instance_key::bigint, :tenant_id::text) as outcome
