-- Jobs: recurring work with a memory. The next start of a job is a timer, its run is a delivery:
-- docs/decisions/0042-jobs.md.

create table shardclock.jobs (
    name text not null,
    function text not null,
    every_s double precision,
    schedule text,
    zone text not null default 'UTC',
    missed text not null default 'fire_once',
    overlap text not null default 'skip',
    priority smallint not null default 2,
    config jsonb,
    policy jsonb not null default '{}',
    declared jsonb,
    state text not null default 'SCHEDULED',
    declared_at timestamptz not null default now(),
    changed_at timestamptz not null default now(),
    withdrawn_at timestamptz,
    disabled_at timestamptz,
    disabled_why text,
    disabled_by text,
    is_enabled boolean not null generated always as (disabled_at is null and withdrawn_at is null) stored,
    -- The mark: a run has begun, and has not ended. Its name is the claim of its delivery.
    run_timer_key bigint,
    run_claims integer,
    run_holder bigint,
    run_attempt integer,
    run_started_at timestamptz,
    cancel_asked_at timestamptz,
    cancel_why text,
    not_before timestamptz,
    last_start timestamptz,
    last_finish timestamptz,
    last_success timestamptz,
    last_outcome text,
    last_reason text,
    runs bigint not null default 0,
    successes bigint not null default 0,
    failures bigint not null default 0,
    crashes bigint not null default 0,
    consecutive_failures integer not null default 0,
    consecutive_crashes integer not null default 0,

    constraint jobs_pkey primary key (name),
    constraint name_is_a_word check (name ~ '^[a-z0-9][a-z0-9_.-]{0,99}$'),
    constraint one_rule_at_most check (num_nonnulls(every_s, schedule) <= 1),
    constraint every_is_within_bounds check (every_s >= 0.1 and every_s <= 31536000),
    constraint schedule_is_1_to_200_characters check (length(schedule) between 1 and 200),
    constraint missed_is_known check (missed in ('fire_once', 'fire_all', 'skip')),
    constraint overlap_is_known check (overlap in ('skip', 'queue', 'replace')),
    constraint priority_is_1_to_4 check (priority between 1 and 4),
    constraint config_is_at_most_64_kib check (octet_length(config::text) <= 65536),
    constraint policy_is_an_object check (jsonb_typeof(policy) = 'object' and length(policy::text) <= 2000),
    constraint state_is_known check (state in ('SCHEDULED', 'STARTING', 'RUNNING', 'TERMINATING', 'DISABLED')),
    constraint mark_is_whole check (
        num_nonnulls(run_timer_key, run_claims, run_holder, run_attempt, run_started_at) in (0, 5)
    )
)
-- Each run updates its row three times or more; no index has one of these columns.
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

comment on table shardclock.jobs is 'The jobs: when each runs, what it does now, and what became of its runs.';
comment on column shardclock.jobs.function is 'Where the function is: package.module:function.';
comment on column shardclock.jobs.every_s is 'The seconds from the end of a run to the next start; null: it has no interval.';
comment on column shardclock.jobs.schedule is 'The rule, cron or an ISO 8601 repeat, that gives the starts; null: it has none.';
comment on column shardclock.jobs.missed is 'What happens to starts of the rule that were missed: fire_once, fire_all or skip.';
comment on column shardclock.jobs.overlap is
    'What happens to a start that is due while a run is going: skip, queue (it waits), or replace (it ends the run).';
comment on column shardclock.jobs.priority is 'Where places are short, jobs with a lower number come first; 1 to 4.';
comment on column shardclock.jobs.config is 'What its function gets as run.config, unless the start has a payload.';
comment on column shardclock.jobs.policy is 'How long a run may take, how it is tried again, what its process needs.';
comment on column shardclock.jobs.declared is
    'What the app declared last: what an operator has changed since stays until the app declares something else.';
comment on column shardclock.jobs.state is 'SCHEDULED, STARTING, RUNNING, TERMINATING or DISABLED.';
comment on column shardclock.jobs.withdrawn_at is 'When the app was started without it; null: its code is there.';
comment on column shardclock.jobs.disabled_at is 'When a client disabled it; null: nobody did.';
comment on column shardclock.jobs.run_timer_key is
    'The present run is the claim run_claims of this delivery; null: nothing runs.';
comment on column shardclock.jobs.cancel_asked_at is 'When a client wanted the present run to end; null: nobody does.';
comment on column shardclock.jobs.not_before is
    'Until when a job that crashed rests: what is left of the run must have ended, and somebody may want to disable it.';
comment on column shardclock.jobs.crashes is
    'Runs of which nobody recorded how they ended. The present run is counted until it ends.';
comment on column shardclock.jobs.consecutive_crashes is 'Crashes in a row; the present run is counted until it ends.';

create table shardclock.job_runs (
    timer_key bigint not null,
    claims integer not null,
    job text not null,
    outcome text,
    attempt integer not null,
    scheduled_at timestamptz not null,
    started_at timestamptz not null,
    running_at timestamptz,
    ended_at timestamptz,
    holder bigint,
    progress double precision,
    message text,
    progressed_at timestamptz,
    reason text,
    traceback text,
    result jsonb,
    log text,
    late_at timestamptz,
    late_outcome text,

    constraint job_runs_pkey primary key (timer_key, claims)
)
with (fillfactor = 70);

create index job_runs_by_job on shardclock.job_runs (job, started_at);

comment on table shardclock.job_runs is 'The last runs of each job, with the present one; older ones are only in the log.';
comment on column shardclock.job_runs.outcome is
    'SUCCEEDED, DISCARDED, FAILED, TIMED_OUT, CANCELED, CRASHED, INTERRUPTED or SKIPPED; null: it has not ended.';
comment on column shardclock.job_runs.scheduled_at is 'When this start was due.';
comment on column shardclock.job_runs.running_at is 'When its function was called; null: its process was not there yet.';
comment on column shardclock.job_runs.log is 'The last lines that it printed or logged.';
comment on column shardclock.job_runs.late_at is
    'When a run that had been given up came to its end: that changed nothing; null: it never did.';

-- The due deliveries of all jobs in one scan. Other deliveries are not in it.
create index deliveries_of_jobs on shardclock.deliveries (next_attempt_at, timer_key) where target like 'job:%';

alter table shardclock.handlers add constraint target_is_no_job check (target not like 'job:%');

comment on column shardclock.command_log.intent is
    'TRIGGERED, CANCELED, RESCHEDULED, SKIPPED, PAUSED or RESUMED; how a delivery ended: DELIVERED, DISCARDED or DEAD; '
    'REDRIVEN: a dead letter is delivered again; what a job does: SCHEDULED, STARTING, RUNNING, TERMINATING or DISABLED.';

create function shardclock.has_targets()
returns boolean
language sql
stable
begin atomic
    select exists (select from shardclock.handlers h where h.withdrawn_at is null)
        or exists (select from shardclock.endpoints)
        or exists (select from shardclock.jobs j where j.withdrawn_at is null)
        -- A delivery whose target was removed becomes a dead letter, and only a worker does that.
        or exists (select from shardclock.deliveries);
end;

comment on function shardclock.has_targets is
    'Internal: Says whether a timer can have a target but the log, or a delivery is on its way: else no workers are wanted.';

-- Null if a timer of this tenant may name the target; else the sentence that says why not.
create function shardclock.unknown_target(target text, tenant_id text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    withdrawn_at timestamptz;
    disabled_at timestamptz;
    disabled_why text;
begin
    if unknown_target.target = 'log' then
        return null;
    end if;
    if unknown_target.target like 'job:%' then
        return shardclock.unknown_job(substr(unknown_target.target, 5), unknown_target.tenant_id);
    end if;
    if unknown_target.target like 'webhook:%' then
        select e.disabled_at, e.disabled_why into disabled_at, disabled_why
        from shardclock.endpoints e
        where e.tenant_id = unknown_target.tenant_id and e.name = substr(unknown_target.target, 9);
        if found and disabled_at is null then
            return null;
        end if;
        if found then
            return format(
                'target "%s" was disabled at %s (%s): enable it (shardclock endpoints enable)',
                left(target, 60), disabled_at, disabled_why
            );
        end if;
    else
        select h.withdrawn_at into withdrawn_at from shardclock.handlers h where h.target = unknown_target.target;
        if found and withdrawn_at is null then
            return null;
        end if;
        if found then
            return format(
                'target "%s" was withdrawn at %s: start the cluster with the app that has it',
                left(target, 60), withdrawn_at
            );
        end if;
    end if;
    return format(
        'target "%s" is unknown: %s', left(target, 60),
        coalesce(
            (
                select 'the targets are log, ' || string_agg(t.target, ', ' order by t.target)
                from (
                    (
                        select h.target
                        from shardclock.handlers h
                        where h.withdrawn_at is null
                        order by h.target
                        limit 20
                    )
                    union all
                    (
                        select 'webhook:' || e.name
                        from shardclock.endpoints e
                        where e.tenant_id = unknown_target.tenant_id and e.disabled_at is null
                        order by e.name
                        limit 20
                    )
                ) t
            ),
            'the only target is log; an app has more (shardclock up --app), '
            'and so has a tenant with endpoints (shardclock endpoints add)'
        )
    );
end
$$;

comment on function shardclock.unknown_target is
    'Internal: Says why a tenant''s timer can''t have a target; null: it can.';

-- Null if a start of this job may be asked for; else the sentence that says why not.
create function shardclock.unknown_job(name text, tenant_id text)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    if unknown_job.tenant_id <> 'default' then
        return format('job "%s" is of the tenant "default", as all jobs are', left(unknown_job.name, 60));
    end if;
    select j.* into job from shardclock.jobs j where j.name = unknown_job.name;
    return case
        when job.name is null
            then format(
                'job "%s" is unknown: %s', left(unknown_job.name, 60),
                coalesce(
                    (
                        select 'the jobs are ' || string_agg(j.name, ', ' order by j.name)
                        from (select j.name from shardclock.jobs j order by j.name limit 20) j
                    ),
                    'there are none; an app declares them (shardclock up --app)'
                )
            )
        when job.withdrawn_at is not null
            then format(
                'job "%s" was withdrawn at %s: start the cluster with the app that has it',
                job.name, job.withdrawn_at
            )
        when job.disabled_at is not null
            then format(
                'job "%s" was disabled at %s (%s): enable it (shardclock jobs enable)',
                job.name, job.disabled_at, job.disabled_why
            )
    end;
end
$$;

comment on function shardclock.unknown_job is
    'Internal: Says why a job can''t be started by a tenant''s timer; null: it can.';

-- Writes the record of a change that no worker makes. A job that has no timer and no run has the key 0 in its record.
create function shardclock.log_of_job(name text, intent text, timer_key bigint, detail jsonb)
returns void
language sql
begin atomic
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, name, detail
    )
    values (
        coalesce(log_of_job.timer_key, 0), now(), now(), 1, log_of_job.intent, 'default', 'USER',
        'job:' || log_of_job.name, 'job:' || log_of_job.name,
        jsonb_strip_nulls(log_of_job.detail || jsonb_build_object('by', current_user))
    );
end;

comment on function shardclock.log_of_job is 'Internal: Records a change of a job that no worker makes.';

-- Writes the timer of a job's next start, unless it has one; returns its key, or null.
create function shardclock.plan_job(planned shardclock.jobs, at timestamptz)
returns bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    if num_nonnulls(planned.every_s, planned.schedule) = 0 then
        return null;
    end if;
    for try in 1 .. 2 loop
        insert into shardclock.timers (
            due_date, anchor, anchor_occurrence, repetitions, target, zone, missed, name, schedule
        )
        select
            -- A shard plans a schedule, which is due at once until then, and does not fire.
            case when planned.schedule is null then plan_job.at else now() end,
            case when planned.schedule is not null then now() end,
            case when planned.schedule is null then 0 end,
            case when planned.schedule is null then 1 else -1 end,
            'job:' || planned.name,
            case when planned.schedule is not null then planned.zone end,
            case when planned.schedule is not null then planned.missed end,
            'job:' || planned.name,
            planned.schedule
        on conflict do nothing
        returning timers.timer_key into key;
        exit when key is not null or exists (
            select from shardclock.timers t where t.tenant_id = 'default' and t.name = 'job:' || planned.name
        );
        -- The name is free, so the key is taken: the sequence of keys was set back.
        perform shardclock.advance_keys();
    end loop;
    return key;
end
$$;

comment on function shardclock.plan_job is 'Internal: Writes the timer of a job''s next start, unless there is one.';

-- When a job with an interval starts next, if its last run is what counts.
create function shardclock.next_start(every_s double precision, last_finish timestamptz)
returns timestamptz
language sql
stable
begin atomic
    select greatest(now(), last_finish + every_s * interval '1 second');
end;

comment on function shardclock.next_start is
    'Internal: Says when a job with an interval starts next: an interval after its last end, and not before now.';

-- Cancels the timer of a job's next start; returns its key, or null.
create function shardclock.drop_job_timer(job text, why text)
returns bigint
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    loop
        with gone as (
            delete from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || drop_job_timer.job and t.target = t.name
            returning t.*
        )
        insert into shardclock.command_log (
            timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, name, schedule, payload,
            detail
        )
        select
            g.timer_key, coalesce(g.paused_due_date, g.due_date), g.created_at, g.occurrence, 'CANCELED', g.tenant_id,
            g.timer_type, g.target, g.name, g.schedule, g.payload,
            jsonb_build_object('reason', drop_job_timer.why, 'by', current_user)
        from gone g
        returning command_log.timer_key into key;
        -- If it fired while we waited for its row, the next occurrence has the name.
        exit when key is not null or not exists (
            select from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || drop_job_timer.job and t.target = t.name
        );
    end loop;
    return key;
end
$$;

comment on function shardclock.drop_job_timer is 'Internal: Cancels the timer of a job''s next start.';

-- Stops a job that was disabled or withdrawn: it has no next start any more, and a run that is going is to end.
create function shardclock.stop_job(stopped shardclock.jobs, why text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint := shardclock.drop_job_timer(stopped.name, why);
    now_is text := case when stopped.run_timer_key is null then 'DISABLED' else 'TERMINATING' end;
begin
    update shardclock.jobs j
    set state = now_is,
        cancel_asked_at = case
            when j.run_timer_key is not null then coalesce(j.cancel_asked_at, clock_timestamp())
        end,
        cancel_why = case when j.run_timer_key is not null then coalesce(j.cancel_why, stop_job.why) end
    where j.name = stopped.name;
    if stopped.state <> now_is then
        perform shardclock.log_of_job(
            stopped.name, now_is, coalesce(stopped.run_timer_key, key), jsonb_build_object('reason', why)
        );
    end if;
    return now_is;
end
$$;

comment on function shardclock.stop_job is
    'Internal: Ends the run of a job that was disabled or withdrawn, and cancels its next start.';

-- Gives a job that may start again its next start. With an interval, the end of a run that is going gives it.
create function shardclock.resume_job(resumed shardclock.jobs)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    if resumed.run_timer_key is null or resumed.schedule is not null then
        key := shardclock.plan_job(resumed, shardclock.next_start(resumed.every_s, resumed.last_finish));
    end if;
    if resumed.run_timer_key is null then
        perform shardclock.log_of_job(resumed.name, 'SCHEDULED', key, '{}');
    end if;
end
$$;

comment on function shardclock.resume_job is 'Internal: Gives a job that may start again its next start.';

-- Repairs what no statement of ours leaves behind, but a lost transaction or a hand may: a mark without its delivery, and
-- a job without a next start. Each is looked at again when its row is locked: what a lock waited for may have mended it.
create function shardclock.tend_jobs(holder bigint)
returns table (job text, repair text)
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    found_one shardclock.jobs;
begin
    -- One worker is enough: the one that keeps the first part of the slots.
    if not exists (
        select from shardclock.holders h
        where h.holder = tend_jobs.holder and h.ended_at is null and h.part = 0
            and shardclock.hold_reason(h.identity) is null
    ) then
        return;
    end if;
    for found_one in
        select j.*
        from shardclock.jobs j
        where j.run_timer_key is not null
            and not exists (select from shardclock.deliveries d where d.timer_key = j.run_timer_key)
        for update of j skip locked
    loop
        continue when exists (select from shardclock.deliveries d where d.timer_key = found_one.run_timer_key);
        -- It stays counted as a crash.
        update shardclock.jobs j
        set state = case when j.is_enabled then 'SCHEDULED' else 'DISABLED' end,
            run_timer_key = null, run_claims = null, run_holder = null, run_attempt = null, run_started_at = null,
            cancel_asked_at = null, cancel_why = null, last_finish = clock_timestamp(), last_outcome = 'CRASHED',
            last_reason = 'its delivery is gone'
        where j.name = found_one.name;
        update shardclock.job_runs r
        set outcome = 'CRASHED', ended_at = clock_timestamp(), reason = 'its delivery is gone'
        where r.timer_key = found_one.run_timer_key and r.claims = found_one.run_claims and r.outcome is null;
        perform shardclock.log_of_job(
            found_one.name, case when found_one.is_enabled then 'SCHEDULED' else 'DISABLED' end,
            found_one.run_timer_key, '{"outcome": "CRASHED", "reason": "its delivery is gone"}'
        );
        job := found_one.name;
        repair := 'its mark had no delivery';
        return next;
    end loop;
    for found_one in
        select j.*
        from shardclock.jobs j
        where j.is_enabled
            and j.run_timer_key is null
            and num_nonnulls(j.every_s, j.schedule) > 0
            and shardclock.has_no_start(j.name)
        for update of j skip locked
    loop
        continue when found_one.run_timer_key is not null or not shardclock.has_no_start(found_one.name);
        perform shardclock.plan_job(
            found_one, shardclock.next_start(found_one.every_s, found_one.last_finish)
        );
        job := found_one.name;
        repair := 'it had no next start';
        return next;
    end loop;
end
$$;

comment on function shardclock.tend_jobs is
    'Internal: Repairs jobs that a failover or a hand left with a mark and no delivery, or without a next start.';

create function shardclock.has_no_start(job text)
returns boolean
language sql
volatile -- For a new snapshot: the caller may have waited for the job's row.
set enable_seqscan = off
begin atomic
    -- One select: a firing moves a start from the one table to the other.
    select not exists (
            select from shardclock.timers t where t.tenant_id = 'default' and t.name = 'job:' || has_no_start.job
        )
        and not exists (
            select from shardclock.deliveries d
            where d.target = 'job:' || has_no_start.job and d.tenant_id = 'default'
        );
end;

comment on function shardclock.has_no_start is 'Internal: Says whether a job has neither a timer nor a delivery.';
