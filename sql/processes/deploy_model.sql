-- Deploys the processes of a model: a new version of each, unless its newest version is of the same file.
--
-- in:    :tenant_id text, :resource text (the file's name), :digest bytea (SHA-256), :model bytea,
--        :said jsonb (an array of {process_id, name, starts, starts_by_hand})
-- out:   definition_key bigint, process_id text, version integer, is_new boolean, of each process
-- locks: each process's deployments, until the end
-- index: definitions_by_process
select d.definition_key, d.process_id, d.version, d.is_new
from shardclock.deploy_model(:tenant_id::text, :resource::text, :digest::bytea, :model::bytea, :said::jsonb) as d
