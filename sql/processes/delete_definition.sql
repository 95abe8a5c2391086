-- Deletes one version of a process.
--
-- in:    :definition_key bigint, :tenant_id text or null (null: of any)
-- out:   outcome text: DELETED or NOT_FOUND
-- locks: the process's deployments, until the end
-- index: definitions_pkey, definitions_by_process
select shardclock.delete_definition(:definition_key::bigint, :tenant_id::text) as outcome
