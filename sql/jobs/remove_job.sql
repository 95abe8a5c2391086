-- Removes a job that no app declares.
--
-- in:    :name text
-- out:   removed boolean (false: there is no such job)
-- locks: the job, and the timer of its next start
-- index: jobs_pkey, timers_by_name_prefix
select shardclock.remove_job(:name::text) as removed
