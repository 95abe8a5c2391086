-- Begins a job's run if exactly one start is due. The start must have no earlier claim; the job must have no queue and
-- no reserved resources. begin_runs.sql begins all other runs; for this start it would have the same result.
--
-- in:    :holder bigint, :lease interval, :now timestamptz or null
-- out:   one row, or none if no run has begun:
--        server_time timestamptz, job text, function text, timer_key bigint, claims integer
--        run_claims integer: the same as claims
--        attempt integer, scheduled_at timestamptz, config text, policy text
--        lease_left interval: zero
-- locks: the claimed delivery and the marked job, until the statement ends; skips locked rows
-- index: deliveries_of_jobs, two due rows; deliveries_pkey and jobs_pkey, one probe each
with due as materialized (
    select d.timer_key, d.target, d.tenant_id, d.claims
    from shardclock.deliveries d
    where d.target like 'job:%' and d.next_attempt_at <= coalesce(:now::timestamptz, now())
    order by d.next_attempt_at, d.timer_key
    limit 2
),
held as materialized (
    select d.timer_key, d.claims, d.failed_attempts, j.name, false as crashed
    from due
    cross join lateral (
        select d.timer_key, d.claims, d.failed_attempts
        from shardclock.deliveries d
        where d.timer_key = due.timer_key
        for update of d skip locked
    ) d
    cross join lateral (
        select j.name
        from shardclock.jobs j
        where j.name = substr(due.target, 5)
            and j.run_timer_key is null
            and j.is_enabled
            and j.withdrawn_at is null
            and (j.not_before > coalesce(:now::timestamptz, now())) is not true
            -- begin_runs.sql begins jobs with a queue or with reserved resources.
            and j.overlap <> 'queue'
            and not jsonb_strip_nulls(j.policy) ?| array['num_cpus', 'num_gpus', 'memory_mib']
        for update of j skip locked
    ) j
    where (select count(*) from due) = 1
        and due.tenant_id = 'default'
        -- If the start was claimed before, its earlier run may have crashed.
        and due.claims = 0
        and not exists (select from shardclock.identity i where i.held_why is not null)
),
marked as (
    -- include: included/mark_jobs.sql
),
found as materialized (
    select m.run_timer_key as timer_key from marked m
),
-- include: included/record_begun.sql
answer as materialized (
    select
        m.name as job, m.function, c.timer_key, c.claims, m.run_claims, m.run_attempt as attempt,
        c.due_date as scheduled_at, coalesce(c.payload, m.config)::text as config, m.policy::text as policy,
        interval '0' as lease_left
    from marked m
    join claimed c on c.timer_key = m.run_timer_key
)
select
    clock_timestamp() as server_time, a.job, a.function, a.timer_key, a.claims, a.run_claims, a.attempt, a.scheduled_at,
    a.config, a.policy, a.lease_left
from answer a
