-- Tells the present run of a job to end.
--
-- in:    :name text, :reason text or null
-- out:   state text
-- locks: the job
-- index: jobs_pkey
select shardclock.cancel_job(:name::text, :reason::text) as state
