-- Jobs: recurring work with a history. The next start of a job is a timer, and a run is a delivery:
-- docs/decisions/0042-jobs.md.
--
-- needs: is_too_deep, refuse_deep_config, note_event

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
    -- The mark of a run that has begun and has not ended. The claim of the run's delivery identifies the run.
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
-- Each run updates its job's row at least three times, so no index contains a column of these updates.
with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

comment on table shardclock.jobs is 'The jobs: their rules, their current states, and the counts of their runs.';
comment on column shardclock.jobs.function is 'The function: package.module:function.';
comment on column shardclock.jobs.every_s is 'The seconds from the end of a run to the next start; null: no interval.';
comment on column shardclock.jobs.schedule is
    'The rule of the job''s starts, cron or an ISO 8601 repeat; null: no rule.';
comment on column shardclock.jobs.missed is 'The handling of missed starts of the rule: fire_once, fire_all or skip.';
comment on column shardclock.jobs.overlap is
    'The handling of a start that is due while the job runs: skip, queue (the start waits), or replace (the start ends the run).';
comment on column shardclock.jobs.priority is
    '1 to 4; if workers can''t begin all due runs, jobs with a lower number come first.';
comment on column shardclock.jobs.config is 'The run.config of the job''s function, unless the start has a payload.';
comment on column shardclock.jobs.policy is 'The time limit of a run, its retries, and the resources of its process.';
comment on column shardclock.jobs.declared is
    'The app''s last declaration; an operator''s change is valid until the app declares another value.';
comment on column shardclock.jobs.state is 'SCHEDULED, STARTING, RUNNING, TERMINATING or DISABLED.';
comment on column shardclock.jobs.withdrawn_at is
    'The time at which the app was started without this job; null: an app has the job''s code.';
comment on column shardclock.jobs.disabled_at is
    'The time at which a client disabled the job; null: it is not disabled.';
comment on column shardclock.jobs.run_timer_key is
    'The delivery of the current run; the run is the claim number run_claims of this delivery; null: no run.';
comment on column shardclock.jobs.cancel_asked_at is
    'The time at which a client cancelled the current run; null: the run is not cancelled.';
comment on column shardclock.jobs.not_before is
    'The end of the pause after a crash. During the pause the crashed run can end, and an operator can disable the job.';
comment on column shardclock.jobs.crashes is
    'The number of runs without a recorded end. The current run counts until it ends.';
comment on column shardclock.jobs.consecutive_crashes is 'Crashes in a row; the current run counts until it ends.';

create trigger jobs_refuse_deep_config before insert or update of config on shardclock.jobs
for each row when (shardclock.is_too_deep(new.config)) execute function shardclock.refuse_deep_config();

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

comment on table shardclock.job_runs is
    'The current run and the last runs of each job; the log has older runs.';
comment on column shardclock.job_runs.outcome is
    'SUCCEEDED, DISCARDED, FAILED, TIMED_OUT, CANCELED, CRASHED, INTERRUPTED or SKIPPED; null: the run has not ended.';
comment on column shardclock.job_runs.scheduled_at is 'The due time of the start.';
comment on column shardclock.job_runs.running_at is
    'The time at which the function was called; null: the run''s process did not start.';
comment on column shardclock.job_runs.log is 'The last lines that the run printed or logged.';
comment on column shardclock.job_runs.late_at is
    'The time at which a run ended after it had been given up; this end has no effect. Null: the run was not given up, or has not ended.';

-- This trigger writes events for operators: 0010_notify.sql.
create trigger note_failed_job after update of consecutive_failures on shardclock.jobs for each row
when (new.consecutive_failures > old.consecutive_failures) execute function shardclock.note_event();
