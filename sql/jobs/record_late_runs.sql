-- Records when runs really ended, after another worker has recorded them as crashed. Does not change the jobs.
--
-- in:    one array for each field of the runs: :timer_keys bigint[], :claims integer[], :outcomes text[]
-- out:   timer_key bigint, claims integer, of each run that was recorded as crashed and has now ended
-- locks: the rows of the runs
-- index: job_runs_pkey
update shardclock.job_runs r
set late_at = clock_timestamp(), late_outcome = a.outcome
from unnest(:timer_keys::bigint[], :claims::integer[], :outcomes::text[]) as a (timer_key, claims, outcome)
where r.timer_key = a.timer_key and r.claims = a.claims and r.outcome = 'CRASHED' and r.late_at is null
returning r.timer_key, r.claims
