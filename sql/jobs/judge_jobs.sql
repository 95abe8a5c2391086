-- Says what jobs would change if they became as they are described, and which of them are refused; writes nothing.
--
-- in:    :said jsonb[] (each an object as shardclock.apply_job takes it)
-- out:   job text, refusal text or null, changes text[] ({added}; or what is otherwise than before; null: it is
--        refused), has_code boolean (an app has its function), in the order of :said
-- locks: nothing
-- index: jobs_pkey, a few probes for each; all jobs, once
with here as materialized (
    select distinct d.function from shardclock.jobs d where d.declared is not null and d.withdrawn_at is null
)
select
    s.said ->> 'name' as job, r.refusal,
    case when r.refusal is null then shardclock.changes_of_job(s.said) end as changes,
    exists (select from here where here.function = s.said ->> 'function') as has_code
from unnest(:said::jsonb[]) with ordinality as s (said, number)
cross join lateral shardclock.refused_job(s.said) as r (refusal)
order by s.number
