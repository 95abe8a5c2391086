-- Measures jobs, one row for each job: the state, the waiting start and the last runs.
--
-- in:    :names text[] or null (all jobs)
--        :most bigint: the limit of jobs
--        :now timestamptz or null
-- out:   name text
--        state text: WITHDRAWN if no app has the job any longer and no run is left
--        runs bigint, successes bigint, failures bigint, crashes bigint, consecutive_failures integer and
--          consecutive_crashes integer: all counts without the current run
--        next_start_s double precision or null: the time until the next start; negative if the start is due
--        waiting_s double precision: how long the oldest due start has waited for the call of its function; 0: no start
--          waits
--        start_lag_s double precision or null: the delay of the last start
--        last_run_s double precision or null
--        since_success_s double precision: the time since the last success, or since the declaration
--        success_overdue_s double precision: the time since the first start that should have succeeded by now was due;
--          0: no success is overdue. For a paused start, its time before the pause counts
--        max_runtime_s double precision
-- locks: nothing
-- index: jobs_pkey; for each job timers_by_name_prefix, deliveries_by_lane and job_runs_by_job, one or two probes each;
--        the probe of job_runs_by_job also reads skipped starts and later attempts, at most 100
with clock as materialized (
    select coalesce(:now::timestamptz, now()) as now
),
job as materialized (
    select
        j.*,
        (j.run_timer_key is not null)::integer as present,
        -- A change of the job, or enabling it, resets the time since the last success.
        greatest(j.last_success, j.changed_at) as since
    from shardclock.jobs j
    where :names::text[] is null or j.name = any (:names)
    order by j.withdrawn_at is not null, j.name
    limit :most::bigint
),
measured as (
    select
        j.*, c.now, case when not t.is_paused then t.due_date end as due_date, s.start_lag, r.took,
        case
            -- If the run's process does not start, or if the worker shuts down, workers begin the same start again.
            when j.last_outcome = 'INTERRUPTED' and d.is_there then d.due_date
            when j.present = 1 then j.run_started_at
            when d.is_there or t.is_there then greatest(least(t.due_date, d.next_attempt_at), j.not_before)
        end as starts_at,
        case
            when not j.is_enabled then null
            when j.every_s is not null
                then greatest(j.changed_at, j.last_success + j.every_s * interval '1 second')
            when j.schedule is null then null
            -- After 50 failures in a row, the history may no longer have the first failure.
            when j.consecutive_failures >= 50 then j.since
            -- A paused start also counts as overdue, because a pause should not stop a job forever.
            else greatest(j.since, coalesce(f.scheduled_at, least(t.would_start_at, d.next_attempt_at)))
        end as succeeds_at
    from clock c
    cross join job j
    left join lateral (
        select
            t.due_date, t.paused_due_date is not null as is_paused, true as is_there,
            coalesce(t.paused_due_date, t.due_date) as would_start_at
        from shardclock.timers t
        where t.tenant_id = 'default' and t.name = 'job:' || j.name
        limit 1
    ) t on true
    left join lateral (
        select d.next_attempt_at, d.due_date, true as is_there
        from shardclock.deliveries d
        where d.target = 'job:' || j.name and d.tenant_id = 'default'
        order by d.next_attempt_at
        limit 1
    ) d on true
    left join lateral (
        select greatest(r.started_at - r.scheduled_at, interval '0') as start_lag
        from shardclock.job_runs r
        where r.job = j.name and r.attempt = 1 and r.outcome is distinct from 'SKIPPED'
        order by r.started_at desc
        limit 1
    ) s on true
    left join lateral (
        select r.ended_at - r.started_at as took
        from shardclock.job_runs r
        where r.job = j.name and r.outcome <> 'SKIPPED'
        order by r.started_at desc
        limit 1
    ) r on true
    left join lateral (
        select r.scheduled_at
        from shardclock.job_runs r
        where r.job = j.name and r.started_at > j.since
        order by r.started_at
        limit 1
    ) f on true
)
select
    m.name,
    case when m.withdrawn_at is not null and m.present = 0 then 'WITHDRAWN' else m.state end as state,
    m.runs - m.present as runs,
    m.successes,
    m.failures,
    m.crashes - m.present as crashes,
    m.consecutive_failures,
    m.consecutive_crashes - m.present as consecutive_crashes,
    extract(epoch from m.due_date - m.now)::double precision as next_start_s,
    greatest(
        extract(
            epoch from m.now
                - case when m.state = 'STARTING' or (m.present = 0 and m.is_enabled) then m.starts_at end
        ),
        0
    )::double precision as waiting_s,
    extract(epoch from m.start_lag)::double precision as start_lag_s,
    extract(epoch from m.took)::double precision as last_run_s,
    greatest(extract(epoch from m.now - coalesce(m.last_success, m.declared_at)), 0)::double precision
        as since_success_s,
    greatest(extract(epoch from m.now - m.succeeds_at), 0)::double precision as success_overdue_s,
    coalesce((m.policy ->> 'max_runtime_s')::double precision, 3600) as max_runtime_s -- jobs/policy.py
from measured m
order by m.withdrawn_at is not null, m.name
