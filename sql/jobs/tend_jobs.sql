-- Repairs jobs: one without a next start gets one, and a mark without a delivery is removed. Only the worker that keeps
-- the first part of the slots does this.
--
-- in:    :holder bigint
-- out:   job text, repair text
-- locks: the jobs that it repairs
-- index: jobs_pkey, all of it; deliveries_pkey, deliveries_by_lane and timers_by_name_prefix, a probe for each job
select t.job, t.repair from shardclock.tend_jobs(:holder::bigint) as t (job, repair)
