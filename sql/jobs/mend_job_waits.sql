-- Ends the waits of jobs that count from a moment which has not come yet, or whose starts were written then: the clock
-- was ahead, and was set back. Only the worker that keeps the first part of the slots does this.
--
-- in:    :holder bigint
-- out:   job text, repair text; 200 jobs at most: call again
-- locks: the jobs that it mends, their timers and deliveries; leaves out those of which somebody has locked one
-- index: jobs_pkey, all of it; timers_by_name_prefix and deliveries_by_lane, a probe for each job
select m.job, m.repair from shardclock.mend_job_waits(:holder::bigint) as m (job, repair)
