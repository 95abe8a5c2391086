-- Ends runs: removes the marks of the jobs, records the outcomes, and schedules the next attempts or the next starts.
--
-- in:    :holder bigint
--        one array for each field of the runs:
--        :jobs text[]: each once
--        :timer_keys bigint[]
--        :claims integer[]: the number of claims of the delivery when the caller claimed it
--        :run_claims integer[]: the number of claims in the job's mark; less than :claims if the run crashed and
--          another worker ends it
--        :outcomes text[]
--        :fails boolean[]: whether the attempt has failed
--        :delays interval[]: the time until the next attempt; null: this start has no further attempt
--        :rests interval[]: the pause until the job may begin any run
--        :duration_ms integer[], :reasons text[], :tracebacks text[], :results jsonb[], :logs text[]
--        :progress double precision[] and :messages text[]: nulls: none
--        :called interval[]: the time since the job's function was called; null: the function was not called
--        :now timestamptz or null
-- out:   one row for each run, in any order:
--        timer_key bigint, claims integer
--        how text: ENDED; LOCKED: another transaction has locked the run's job or delivery, so send the run again;
--          LOST: another worker has ended the run, and nothing was changed
-- locks: the deliveries and jobs, until the statement ends; skips locked rows
-- index: deliveries_pkey, jobs_pkey, job_runs_pkey and timers_by_name_prefix, a probe or two for each run
with given as materialized (
    select a.*
    from unnest(
        :jobs::text[], :timer_keys::bigint[], :claims::integer[], :run_claims::integer[], :outcomes::text[],
        :fails::boolean[], :delays::interval[], :rests::interval[], :duration_ms::integer[], :reasons::text[],
        :tracebacks::text[], :results::jsonb[], :logs::text[], :progress::double precision[], :messages::text[],
        :called::interval[]
    ) as a (
        job, timer_key, claims, run_claims, outcome, fails, delay, rest, duration_ms, reason, traceback, result, log,
        progress, message, called
    )
),
held as materialized (
    select d.*
    from shardclock.deliveries d
    where d.timer_key = any (:timer_keys)
        and d.claimed_by = :holder::bigint
        and ((d.timer_key, d.claims) in (select g.timer_key, g.claims from given g)) is true
    for update of d skip locked
),
locked as materialized (
    select
        j.name, j.cancel_asked_at is not null as is_cancelled, j.cancel_why, j.state = 'STARTING' as is_starting
    from shardclock.jobs j
    where j.name = any (:jobs)
    for update of j skip locked
),
attempt as materialized (
    -- If the worker of a cancelled run released the run before it read the cancellation, the run counts as cancelled.
    select
        g.job, g.timer_key, g.claims, g.run_claims, g.fails, g.delay, g.rest, g.duration_ms, g.traceback, g.result, g.log,
        g.progress, g.message, g.called,
        case when unheard.is_so then 'CANCELED' else g.outcome end as outcome,
        case when unheard.is_so then l.cancel_why else g.reason end as reason
    from given g
    left join locked l on l.name = g.job
    cross join lateral (select (l.is_cancelled and g.outcome = 'INTERRUPTED') is true as is_so) unheard
),
clock as materialized (
    -- Read the clock once, and only after this statement has locked all rows.
    select coalesce(:now::timestamptz, clock_timestamp()) as at from (select count(*) from held, locked) l
),
unmarked as (
    update shardclock.jobs j
    set state = case when j.is_enabled then 'SCHEDULED' else 'DISABLED' end,
        run_timer_key = null,
        run_claims = null,
        run_holder = null,
        run_attempt = null,
        run_started_at = null,
        cancel_asked_at = null,
        cancel_why = null,
        not_before = clock.at + a.rest,
        crashes = j.crashes - (a.outcome <> 'CRASHED')::integer,
        consecutive_crashes = case
            when a.outcome = 'CRASHED' then j.consecutive_crashes
            when a.outcome = 'INTERRUPTED' then j.consecutive_crashes - 1
            else 0
        end,
        successes = j.successes + (a.outcome in ('SUCCEEDED', 'DISCARDED'))::integer,
        failures = j.failures + (a.outcome in ('FAILED', 'TIMED_OUT'))::integer,
        consecutive_failures = case
            when a.outcome in ('SUCCEEDED', 'DISCARDED') then 0
            when a.outcome in ('FAILED', 'TIMED_OUT', 'CRASHED') then j.consecutive_failures + 1
            else j.consecutive_failures
        end,
        last_finish = clock.at,
        last_success = case
            when a.outcome in ('SUCCEEDED', 'DISCARDED') then clock.at
            else j.last_success
        end,
        last_outcome = a.outcome,
        last_reason = a.reason
    from attempt a
    join held h on h.timer_key = a.timer_key
    join locked l on l.name = a.job
    cross join clock
    where j.name = any (array(select locked.name from locked))
        and j.name = a.job
        -- The fence, checked on the row that is written: the job must be marked with this run.
        and j.run_timer_key = a.timer_key
        and j.run_claims = a.run_claims
    returning
        j.name, j.state, j.is_enabled, j.every_s, j.last_finish, l.is_cancelled, l.is_starting, a.timer_key, a.delay,
        a.fails, (h.name = h.target) is true as is_own
),
decided as materialized (
    select
        u.name, u.state, u.is_enabled, u.every_s, u.last_finish, u.is_starting, u.timer_key, u.delay,
        t.due_date as next_due,
        u.delay is null
            or not u.is_enabled
            -- A cancelled run has no next attempt, even if it has failed.
            or u.is_cancelled
            -- If the next start is due before the next attempt, the start replaces the attempt. Exception: if the run
            -- of a start on request did not fail, the start is retried, because it may have its own configuration. The
            -- job's `overlap` then decides between the two starts.
            or (t.is_planned and t.due_date <= u.last_finish + u.delay and (u.fails or u.is_own)) is true
            -- The rule above also applies to a next start that this statement plans, but only if the run has failed. A
            -- run that did not fail always gets another attempt.
            or (u.fails and u.every_s * interval '1 second' <= u.delay) is true
            as is_over
    from unmarked u
    left join lateral (
        -- A new rule has no due date until a shard computes its first due date.
        select t.due_date, t.schedule is null or t.anchor_occurrence is not null as is_planned
        from shardclock.timers t
        where t.tenant_id = 'default' and t.name = 'job:' || u.name
        limit 1
    ) t on true
),
gone as (
    delete from shardclock.deliveries d
    where d.timer_key = any (array(select e.timer_key from decided e where e.is_over))
),
again as (
    update shardclock.deliveries d
    set claimed_by = null,
        claimed_until = null,
        failed_attempts = d.failed_attempts + a.fails::integer,
        given_back = d.given_back + (not a.fails)::integer,
        -- A run that the worker released without a delay keeps its position in the queue.
        next_attempt_at = case
            when a.fails or a.delay > interval '0' then e.last_finish + a.delay
            else d.next_attempt_at
        end,
        failures = case
            when not a.fails then d.failures
            else shardclock.with_failure(d.failures, d.failed_attempts + 1, a.reason, :holder, e.last_finish)
        end
    from decided e
    join attempt a on a.timer_key = e.timer_key
    where d.timer_key = any (array(select e.timer_key from decided e where not e.is_over))
        and d.timer_key = e.timer_key
        and not e.is_over
    returning d.timer_key, d.next_attempt_at
),
scheduled as (
    insert into shardclock.timers (due_date, target, name)
    select e.last_finish + e.every_s * interval '1 second', 'job:' || e.name, 'job:' || e.name
    from decided e
    where e.is_over and e.is_enabled and e.every_s is not null and e.next_due is null
    on conflict do nothing
    returning timers.name, timers.due_date
),
recorded as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, detail
    )
    select
        h.timer_key, h.process_instance_key, h.element_instance_key, h.due_date, h.created_at, h.occurrence, :holder,
        r.intent, h.tenant_id, h.timer_type, h.target, h.target_element_id, h.name, h.schedule,
        jsonb_strip_nulls(r.detail)
            || case when a.result is null or not r.tells_result then '{}' else jsonb_build_object('result', a.result) end
    from decided e
    join held h on h.timer_key = e.timer_key
    join attempt a on a.timer_key = e.timer_key
    left join again n on n.timer_key = e.timer_key
    left join scheduled s on s.name = 'job:' || e.name
    cross join lateral (
        select
            1 as place, 'RUNNING' as intent,
            jsonb_build_object('run', a.timer_key || '.' || a.run_claims) as detail,
            false as tells_result
        where e.is_starting and a.called is not null
        union all
        select
            2,
            case
                when a.outcome = 'SUCCEEDED' then 'DELIVERED'
                when a.outcome in ('FAILED', 'TIMED_OUT', 'CRASHED') then 'DEAD'
                else 'DISCARDED'
            end,
            jsonb_build_object(
                'run', a.timer_key || '.' || a.run_claims, 'attempt', h.failed_attempts + 1, 'ms', a.duration_ms,
                'reason', a.reason
            ),
            true
        where e.is_over
        union all
        select
            3,
            e.state,
            jsonb_build_object(
                'run', a.timer_key || '.' || a.run_claims, 'outcome', a.outcome, 'reason', a.reason,
                'next_start', coalesce(n.next_attempt_at, s.due_date, e.next_due)
            ),
            false
    ) r
    order by h.timer_key, r.place
),
kept as (
    update shardclock.job_runs r
    set outcome = a.outcome, running_at = coalesce(r.running_at, e.last_finish - a.called), ended_at = e.last_finish,
        reason = a.reason, traceback = a.traceback, result = a.result,
        log = coalesce(a.log, r.log),
        progress = coalesce(a.progress, r.progress),
        message = case when a.progress is null then r.message else a.message end
    from decided e
    join attempt a on a.timer_key = e.timer_key
    where r.timer_key = a.timer_key and r.claims = a.run_claims
)
select
    a.timer_key, a.claims,
    case
        when exists (select from decided e where e.timer_key = a.timer_key) then 'ENDED'
        when exists (
                select from shardclock.jobs j
                where j.name = a.job and j.run_timer_key = a.timer_key and j.run_claims = a.run_claims
            )
            and (
                select d.claims = a.claims and d.claimed_by = :holder
                from shardclock.deliveries d
                where d.timer_key = a.timer_key
            )
            then 'LOCKED'
        else 'LOST'
    end as how
from attempt a
