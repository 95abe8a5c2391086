-- Reads jobs with their state, next start, last run and counters, by name.
--
-- in:    :names text[] or null (all jobs)
-- out:   name text, function text, state text, every_s double precision, schedule text, zone text, missed text, overlap
--          text, priority integer, config text, policy text
--        next_start timestamptz or null (the start is paused, or no shard has planned the rule yet)
--        next_key bigint or null: the timer of the next start
--        paused_start timestamptz or null: the start time of a paused next start
--        paused_until timestamptz or null: the end of the pause
--        paused_at timestamptz, paused_why text
--        paused_by text: from the log's record of the pause, if the log still has it
--        waiting bigint: due starts that wait
--        retry_at timestamptz or null: the next attempt after a failure; also null while the job is disabled
--        run_id text or null, run_attempt integer, run_started_at timestamptz, cancel_why text, progress double
--          precision, message text, holder bigint, last_start timestamptz, last_finish timestamptz, last_success
--          timestamptz, last_outcome text, last_reason text, runs bigint, successes bigint, failures bigint, crashes
--          bigint, consecutive_failures integer and consecutive_crashes integer: without the present run
--        p50_s double precision and p99_s double precision: the durations of successful runs in the history
--        disabled_at timestamptz, disabled_why text, disabled_by text, withdrawn_at timestamptz
-- locks: nothing
-- index: jobs_pkey, timers_by_name_prefix, deliveries_by_lane, job_runs_by_job: the rows of each job; for a job with a
--        paused next start also command_log_by_timer_key
select
    j.name, j.function, j.state, j.every_s, j.schedule, j.zone, j.missed, j.overlap, j.priority::integer as priority,
    j.config::text as config, j.policy::text as policy,
    case when t.paused_due_date is null and not t.is_unplanned then t.due_date end as next_start,
    t.timer_key as next_key,
    t.paused_due_date as paused_start, t.resume_at as paused_until, l.recorded_at as paused_at, l.why as paused_why, l.paused_by,
    d.waiting, case when j.disabled_at is null then d.retry_at end as retry_at,
    j.run_timer_key || '.' || j.run_claims as run_id,
    j.run_attempt, j.run_started_at, j.cancel_why, r.progress, r.message, j.run_holder as holder,
    j.last_start, j.last_finish, j.last_success, j.last_outcome, j.last_reason, j.runs, j.successes, j.failures,
    j.crashes - (j.run_timer_key is not null)::integer as crashes,
    j.consecutive_failures,
    j.consecutive_crashes - (j.run_timer_key is not null)::integer as consecutive_crashes,
    p.of_half as p50_s, p.of_most as p99_s,
    j.disabled_at, j.disabled_why, j.disabled_by, j.withdrawn_at
from shardclock.jobs j
left join lateral (
    select
        t.timer_key, t.due_date, t.paused_due_date, t.resume_at,
        -- The due date of a new rule is a placeholder until a shard computes its first due date.
        t.schedule is not null and t.anchor_occurrence is null as is_unplanned
    from shardclock.timers t
    where t.tenant_id = 'default' and t.name = 'job:' || j.name
    limit 1
) t on true
left join lateral (
    -- A shard pauses a timer that it can't fire, and writes the reason to `refused`.
    select l.recorded_at, coalesce(l.detail ->> 'reason', l.detail ->> 'refused') as why, l.detail ->> 'by' as paused_by
    from shardclock.command_log l
    where t.paused_due_date is not null and l.timer_key = t.timer_key and l.intent = 'PAUSED'
    order by l.recorded_at desc
    limit 1
) l on true
left join lateral (
    select r.progress, r.message
    from shardclock.job_runs r
    where r.timer_key = j.run_timer_key and r.claims = j.run_claims
    limit 1
) r on true
cross join lateral (
    select
        count(*) filter (where d.next_attempt_at <= now() and d.timer_key is distinct from j.run_timer_key) as waiting,
        min(d.next_attempt_at) filter (where d.failed_attempts > 0 and d.next_attempt_at > now()) as retry_at
    from shardclock.deliveries d
    where d.target = 'job:' || j.name and d.tenant_id = 'default'
) d
cross join lateral (
    select
        percentile_cont(0.5) within group (order by extract(epoch from o.ended_at - o.started_at)::double precision)
            as of_half,
        percentile_cont(0.99) within group (order by extract(epoch from o.ended_at - o.started_at)::double precision)
            as of_most
    from shardclock.job_runs o
    where o.job = j.name and o.outcome = 'SUCCEEDED'
) p
where :names::text[] is null or j.name = any (:names)
order by j.name
