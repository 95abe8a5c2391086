-- Finds the changes that an import of a file of jobs would make, and the jobs that it would refuse; writes nothing.
--
-- in:    :specs jsonb[] (each an object in the form of shardclock.apply_job)
-- out:   job text, refusal text or null, changes text[] ({added}, or the columns that would change; null: the job is
--        refused), has_code boolean (an app has its function), in the order of :specs
-- locks: nothing
-- index: jobs_pkey, a few probes for each job; one scan of all jobs
with here as materialized (
    select distinct d.function from shardclock.jobs d where d.declared is not null and d.withdrawn_at is null
)
select
    s.spec ->> 'name' as job, r.refusal,
    case when r.refusal is null then shardclock.changes_of_job(s.spec) end as changes,
    exists (select from here where here.function = s.spec ->> 'function') as has_code
from unnest(:specs::jsonb[]) with ordinality as s (spec, number)
cross join lateral shardclock.refused_job(s.spec) as r (refusal)
order by s.number
