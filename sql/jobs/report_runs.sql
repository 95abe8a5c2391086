-- Writes the progress of runs, and the last lines of their logs.
--
-- in:    one array for each field of the runs: :timer_keys bigint[], :claims integer[], :progress double precision[],
--        :messages text[], :logs text[] (null: the value does not change)
-- out:   nothing
-- locks: the rows of the runs
-- index: job_runs_pkey
update shardclock.job_runs r
set progress = coalesce(s.progress, r.progress),
    message = case when s.progress is null then r.message else s.message end,
    progressed_at = case
        when (r.progress, r.message) is distinct from (s.progress, s.message) and s.progress is not null
            then clock_timestamp()
        else r.progressed_at
    end,
    log = coalesce(s.log, r.log)
from unnest(
    :timer_keys::bigint[], :claims::integer[], :progress::double precision[], :messages::text[], :logs::text[]
) as s (timer_key, claims, progress, message, log)
where r.timer_key = s.timer_key and r.claims = s.claims and r.outcome is null
