-- Starts a job now, beside the starts that it has anyway.
--
-- in:    :name text, :config jsonb or null
-- out:   timer_key bigint
-- locks: nothing that is there
-- index: jobs_pkey
select shardclock.run_job(:name::text, :config::jsonb) as timer_key
