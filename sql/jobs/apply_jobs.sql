-- Applies the jobs of a file; if one job is refused, no job is applied.
--
-- in:    :specs jsonb[] (each an object in the form of shardclock.apply_job)
-- out:   job text, changes text[]: {added}, or the changed columns; empty: no change
-- locks: the jobs, in the order of :specs; the timers of their next starts
-- index: jobs_pkey, timers_by_name_prefix
select s.spec ->> 'name' as job, a.changes
from unnest(:specs::jsonb[]) with ordinality as s (spec, number)
cross join lateral shardclock.apply_job(s.spec) as a (changes)
