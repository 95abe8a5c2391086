-- Declares the jobs of an app: those that are new or changed are written, those that are missing are withdrawn.
--
-- in:    :said jsonb[] (each an object, whose keys are columns of a job, and config_outline), :names text[]
-- out:   job text, changes text[]: {added}; {back} and the columns that it has otherwise; these columns alone; or
--        {withdrawn}. None for a job that is as it was
-- locks: the jobs, and what clients add or describe
-- index: none, or jobs_pkey
select d.job, d.changes from shardclock.declare_jobs(:said::jsonb[], :names::text[]) as d
