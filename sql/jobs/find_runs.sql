-- Reads the runs of a job, or the runs of one start, newest first.
--
-- in:    :job text or null, :timer_key bigint or null, :claims integer or null, :limit bigint
-- out:   timer_key bigint, claims integer, job text
--        outcome text or null (the run has not ended)
--        attempt integer, scheduled_at timestamptz, started_at timestamptz, running_at timestamptz, ended_at
--          timestamptz, reason text, traceback text, result text, progress double precision, message text,
--          progressed_at timestamptz, log text, holder bigint, late_at timestamptz, late_outcome text
-- locks: nothing
-- index: job_runs_by_job, or job_runs_pkey
select
    r.timer_key, r.claims, r.job, r.outcome, r.attempt, r.scheduled_at, r.started_at, r.running_at, r.ended_at,
    r.reason, r.traceback, r.result::text as result, r.progress, r.message, r.progressed_at, r.log, r.holder, r.late_at,
    r.late_outcome
from shardclock.job_runs r
where (:job::text is null or r.job = :job)
    and (:timer_key::bigint is null or r.timer_key = :timer_key)
    and (:claims::integer is null or r.claims = :claims)
order by r.started_at desc, r.claims desc
limit :limit
