-- Writes new states of runs: RUNNING (a process has called the function) or TERMINATING (the run must end).
--
-- in:    :holder bigint
--        one array for each field of the runs:
--        :jobs text[], :timer_keys bigint[], :claims integer[], :states text[]
--        :reasons text[]: null: no reason
-- out:   timer_key bigint
--        claims integer of each run with a job that another transaction has locked: send these runs again. A run that
--          already has this state, that must end or that has ended does not change, and has no row
-- locks: the jobs; skips locked rows
-- index: jobs_pkey, job_runs_pkey, one probe for each run
with given as materialized (
    select s.*
    from unnest(:jobs::text[], :timer_keys::bigint[], :claims::integer[], :states::text[], :reasons::text[])
        as s (job, timer_key, claims, state, reason)
),
locked as materialized (
    select j.name from shardclock.jobs j where j.name = any (:jobs) for update of j skip locked
),
advanced as (
    update shardclock.jobs j
    set state = s.state
    from given s
    where j.name = any (array(select locked.name from locked))
        and j.name = s.job
        and j.run_timer_key = s.timer_key
        and j.run_claims = s.claims
        and j.run_holder = :holder::bigint
        and (j.state = 'STARTING' or (j.state = 'RUNNING' and s.state = 'TERMINATING'))
    returning j.name, j.run_timer_key, j.run_claims, j.run_started_at, s.state, s.reason
),
called as (
    update shardclock.job_runs r
    set running_at = clock_timestamp()
    from advanced a
    where r.timer_key = a.run_timer_key and r.claims = a.run_claims and a.state = 'RUNNING'
),
recorded as (
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, holder, intent, tenant_id, timer_type, target, name, detail
    )
    select
        a.run_timer_key, a.run_started_at, a.run_started_at, 1, :holder, a.state, 'default', 'USER', 'job:' || a.name,
        'job:' || a.name,
        jsonb_strip_nulls(
            jsonb_build_object('run', a.run_timer_key || '.' || a.run_claims, 'reason', a.reason)
        )
    from advanced a
)
select s.timer_key, s.claims
from given s
where s.job not in (select l.name from locked l)
    and exists (select from shardclock.jobs j where j.name = s.job)
