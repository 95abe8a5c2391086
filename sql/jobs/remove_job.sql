-- Removes a job that no app declares, with its next start and the starts that wait.
--
-- in:    :name text
-- out:   removed boolean (false: there is no such job)
-- locks: the job, the timer of its next start, and starts that wait
-- index: jobs_pkey, timers_by_name_prefix, deliveries_by_lane
select shardclock.remove_job(:name::text) as removed
