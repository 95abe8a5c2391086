-- Reads the model of a definition.
--
-- in:    :definition_key bigint
-- out:   one row: process_id text, tenant_id text, model bytea; no row if the definition does not exist
-- locks: nothing
-- index: definitions_pkey
select d.process_id, d.tenant_id, d.model
from shardclock.definitions d
where d.definition_key = :definition_key::bigint
