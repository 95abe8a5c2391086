-- Makes jobs as they are described, all of them or, if one is refused, none.
--
-- in:    :said jsonb[] (each an object as shardclock.apply_job takes it)
-- out:   job text, changes text[]: {added}; what is otherwise than before; or empty: it was so already
-- locks: the jobs, in the order of :said; the timers of their next starts
-- index: jobs_pkey, timers_by_name_prefix
select s.said ->> 'name' as job, a.changes
from unnest(:said::jsonb[]) with ordinality as s (said, number)
cross join lateral shardclock.apply_job(s.said) as a (changes)
