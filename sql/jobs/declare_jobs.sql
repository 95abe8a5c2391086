-- Declares the jobs of an app: those that are new or changed are written, those that are missing are withdrawn.
--
-- in:    :said jsonb[] (each an object, whose keys are columns of a job), :names text[]
-- out:   job text, changes text[]: {added}; {back} and the columns that it has otherwise; these columns alone; or
--        {withdrawn}. None for a job that is as it was
-- locks: the jobs
-- index: none, or jobs_pkey
select s.said ->> 'name' as job, d.changes
from unnest(:said::jsonb[]) as s (said)
cross join lateral shardclock.declare_job(s.said) as d (changes)
where d.changes <> '{}'
union all
select w.name, '{withdrawn}'::text[]
from shardclock.withdraw_jobs(:names::text[]) as w (name)
