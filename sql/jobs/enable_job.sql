-- Lets a disabled job start again.
--
-- in:    :name text
-- out:   state text
-- locks: the job
-- index: jobs_pkey
select shardclock.enable_job(:name::text) as state
