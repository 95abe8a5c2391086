-- Marks the jobs of the starts in `held` as running, except the jobs of crashed runs.
update shardclock.jobs j
set state = 'STARTING',
    run_timer_key = h.timer_key,
    run_claims = h.claims + 1,
    run_holder = :holder,
    run_attempt = h.failed_attempts + 1,
    run_started_at = clock_timestamp(),
    cancel_asked_at = null,
    cancel_why = null,
    last_start = clock_timestamp(),
    runs = j.runs + 1,
    -- Count a crash before the run begins, so that the count is correct if the worker dies during the run. If the run
    -- ends without a crash, end_runs subtracts one from the count.
    crashes = j.crashes + 1,
    consecutive_crashes = j.consecutive_crashes + 1
from held h
where j.name = any (array(select h.name from held h where not h.crashed))
    and j.name = h.name
    and not h.crashed
    and j.run_timer_key is null
returning j.name, j.function, j.run_timer_key, j.run_claims, j.run_attempt, j.run_started_at, j.config, j.policy
