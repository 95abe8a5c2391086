-- Starts an instance of a process.
--
-- in:    :process_id text, :variables jsonb, :tenant_id text, :version integer or null (null: the newest),
--        :idempotency_key text or null (null: each call starts one), :business_key text or null
-- out:   instance_key bigint
-- locks: the new rows, and the idempotency key until the end
-- index: definitions_by_process, process_starts_pkey
select shardclock.start_process(
    :process_id::text, :variables::jsonb, :tenant_id::text, :version::integer, :idempotency_key::text,
    :business_key::text
) as instance_key
