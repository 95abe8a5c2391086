-- Keeps a job from starting, and tells its present run to end.
--
-- in:    :name text, :reason text or null
-- out:   state text
-- locks: the job, and the timer of its next start
-- index: jobs_pkey, timers_by_name_prefix
select shardclock.disable_job(:name::text, :reason::text) as state
