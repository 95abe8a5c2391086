-- Gives a job another configuration.
--
-- in:    :name text, :config jsonb
-- out:   before text (the configuration that it had)
-- locks: the job
-- index: jobs_pkey
select shardclock.configure_job(:name::text, :config::jsonb)::text as before
