-- The verbs of jobs, and what a start of an app writes. A worker hears of a change within a quarter of a second.

create function shardclock.run_job(name text, config jsonb default null)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    why_not text := shardclock.unknown_job(run_job.name, 'default');
    key bigint;
begin
    if run_job.name is null or why_not is not null then
        raise exception '%', coalesce(why_not, 'job null is unknown: name one')
            using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(run_job.config::text) > 65536 then
        raise exception 'config has % bytes: the limit is 65536 (64 KiB)', octet_length(run_job.config::text)
            using errcode = 'invalid_parameter_value';
    end if;
    loop
        insert into shardclock.timers (due_date, target, payload)
        values (now(), 'job:' || run_job.name, run_job.config)
        on conflict do nothing
        returning timers.timer_key into key;
        exit when key is not null;
        perform shardclock.advance_keys();
    end loop;
    return key;
end
$$;

comment on function shardclock.run_job is $$Starts a job now, in the caller's transaction: it has one more start, and
its next start stays when it is. If a run is going, the job's overlap says what happens.

name: the job's name
config: what this run gets as its configuration; null: the job's own
returns: the timer_key of the start; shardclock.job_runs has its runs
errors: 22023 for a job that is unknown, disabled or withdrawn, or a config of more than 64 KiB
example: select shardclock.run_job('refresh', config => '{"region": "eu"}');
$$;

create function shardclock.cancel_job(name text, reason text default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    state text;
    key bigint;
begin
    update shardclock.jobs j
    set state = 'TERMINATING',
        cancel_asked_at = clock_timestamp(),
        cancel_why = coalesce(cancel_job.reason, 'cancelled by ' || current_user)
    where j.name = cancel_job.name and j.run_timer_key is not null and j.state <> 'TERMINATING'
    returning j.run_timer_key into key;
    if found then
        perform shardclock.log_of_job(
            cancel_job.name, 'TERMINATING', key, jsonb_build_object('reason', cancel_job.reason)
        );
        return 'TERMINATING';
    end if;
    select j.state into state from shardclock.jobs j where j.name = cancel_job.name;
    if not found then
        raise exception '%', shardclock.unknown_job(coalesce(cancel_job.name, ''), 'default')
            using errcode = 'invalid_parameter_value';
    end if;
    return state;
end
$$;

comment on function shardclock.cancel_job is $$Tells the present run of a job to end. Its start is not tried again; the
next start stays when it is.

name: the job's name
reason: kept in the record and with the run
returns: TERMINATING (a run is ending), or SCHEDULED or DISABLED: nothing runs
errors: 22023 for a job that is unknown
example: select shardclock.cancel_job('refresh', reason => 'wrong region');
$$;

create function shardclock.disable_job(name text, reason text default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    update shardclock.jobs j
    set disabled_at = coalesce(j.disabled_at, clock_timestamp()),
        disabled_why = coalesce(disable_job.reason, j.disabled_why, 'no reason was given'),
        disabled_by = coalesce(j.disabled_by, current_user),
        changed_at = clock_timestamp()
    where j.name = disable_job.name
    returning j.* into job;
    if not found then
        raise exception '%', shardclock.unknown_job(coalesce(disable_job.name, ''), 'default')
            using errcode = 'invalid_parameter_value';
    end if;
    return shardclock.stop_job(job, 'disabled' || coalesce(': ' || disable_job.reason, ''));
end
$$;

comment on function shardclock.disable_job is $$Keeps a job from starting until it is enabled, and tells its present run
to end.

as: cancel_job
returns: DISABLED, or TERMINATING: a run is ending
example: select shardclock.disable_job('refresh', reason => 'the source is moved');
$$;

create function shardclock.enable_job(name text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    select j.* into job from shardclock.jobs j where j.name = enable_job.name for update;
    if not found or job.withdrawn_at is not null then
        raise exception '%', shardclock.unknown_job(coalesce(enable_job.name, ''), 'default')
            using errcode = 'invalid_parameter_value';
    end if;
    if job.disabled_at is null then
        return job.state;
    end if;
    update shardclock.jobs j
    set disabled_at = null, disabled_why = null, disabled_by = null, changed_at = clock_timestamp(),
        state = case when j.run_timer_key is null then 'SCHEDULED' else j.state end
    where j.name = enable_job.name
    returning j.* into job;
    perform shardclock.resume_job(job);
    return job.state;
end
$$;

comment on function shardclock.enable_job is $$Lets a disabled job start again. With an interval it starts an interval
after its last end, or at once if that is over.

name: the job's name
returns: SCHEDULED, or what it does: it was not disabled, or its last run is still ending
errors: 22023 for a job that is unknown, or whose code is gone
example: select shardclock.enable_job('refresh');
$$;

create function shardclock.configure_job(name text, config jsonb)
returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    before jsonb;
begin
    select j.config into before from shardclock.jobs j where j.name = configure_job.name for update;
    if not found then
        raise exception '%', shardclock.unknown_job(coalesce(configure_job.name, ''), 'default')
            using errcode = 'invalid_parameter_value';
    end if;
    if octet_length(configure_job.config::text) > 65536 then
        raise exception 'config has % bytes: the limit is 65536 (64 KiB)', octet_length(configure_job.config::text)
            using errcode = 'invalid_parameter_value';
    end if;
    update shardclock.jobs j set config = configure_job.config, changed_at = clock_timestamp()
    where j.name = configure_job.name;
    return before;
end
$$;

comment on function shardclock.configure_job is $$Gives a job another configuration; its next run has it. It stays until
the app declares another one.

name: the job's name
config: any JSON of at most 64 KiB; the type that the job's function takes checks it when a run begins
returns: the configuration that it had
errors: 22023 for a job that is unknown, or a config of more than 64 KiB
example: select shardclock.configure_job('refresh', '{"region": "eu"}');
$$;

create function shardclock.add_job(
    name text,
    of_job text,
    every interval default null,
    schedule text default null,
    zone text default 'UTC',
    missed text default 'fire_once',
    overlap text default null,
    priority integer default null,
    config jsonb default null
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
    model shardclock.jobs;
    job shardclock.jobs;
    refusal text;
begin
    select j.* into model from shardclock.jobs j where j.name = of_job and j.declared is not null;
    refusal := case
        when name is null or name !~ '^[a-z0-9][a-z0-9_.-]{0,99}$'
            then format(
                'name "%s" must have 1 to 100 characters of a-z, 0-9, _ . and -, and begin with a letter or digit',
                left(name, 60)
            )
        when model.name is null
            then format('of_job "%s" is unknown: name a job that an app declares', left(of_job, 60))
        when model.withdrawn_at is not null then shardclock.unknown_job(of_job, 'default')
        when num_nonnulls(every, schedule) > 1 then 'give every or schedule, or neither: then it runs on request'
        when extract(year from every) <> 0 or extract(month from every) <> 0
            then format('every "%s" has years or months, whose length depends on the date: give days', every)
        when extract(epoch from every) not between 0.1 and 31536000
            then format('every "%s" must be from 0.1 s to 365 days', every)
        when missed is null or missed not in ('fire_once', 'fire_all', 'skip')
            then format('missed "%s" is unknown: use fire_once, fire_all or skip', left(missed, 60))
        when overlap not in ('skip', 'queue', 'replace')
            then format('overlap "%s" is unknown: use skip, queue or replace', left(overlap, 60))
        when priority not between 1 and 4 then format('priority %s must be from 1 to 4', priority)
        when octet_length(config::text) > 65536
            then format('config has %s bytes: the limit is 65536 (64 KiB)', octet_length(config::text))
    end;
    if refusal is not null then
        raise exception '%', refusal using errcode = 'invalid_parameter_value';
    end if;
    if schedule is not null then
        perform shardclock.check_zone(zone), shardclock.check_schedule(schedule);
        zone := shardclock.agreed_zone(schedule, zone);
    end if;
    insert into shardclock.jobs (
        name, function, every_s, schedule, zone, missed, overlap, priority, config, policy
    )
    values (
        name, model.function, extract(epoch from every), schedule, zone, missed, coalesce(overlap, model.overlap),
        coalesce(priority, model.priority), coalesce(config, model.config), model.policy
    )
    on conflict do nothing
    returning jobs.* into job;
    if job.name is null then
        raise exception 'job "%" is there already: remove it first, or choose another name', name
            using errcode = 'unique_violation';
    end if;
    perform shardclock.resume_job(job);
    return job.state;
end
$$;

comment on function shardclock.add_job is $$Adds a job that runs the function of a declared job. The new job has its own
rule and its own configuration, and takes effect at once.

name: the new job's name
of_job: the declared job whose function it runs, and whose retries, times and needs it has
every: the time from the end of a run to the next start; days and shorter
schedule: an ISO 8601 repeat such as R/PT1H, or cron of five or six fields; with neither, it runs on request
zone: the IANA time zone on whose clock the schedule is counted
missed: what happens to starts of the schedule that were missed: fire_once, fire_all or skip
overlap: skip, queue or replace; null: as of_job
priority: 1 to 4, 1 comes first; null: as of_job
config: what its function gets as run.config; null: as of_job
returns: SCHEDULED
errors: 22023 for a wrong argument, in a sentence that names it; 23505 for a name that is taken
example: select shardclock.add_job('refresh-eu', of_job => 'refresh', every => 'PT1H', config => '{"region": "eu"}');
$$;

create function shardclock.remove_job(name text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    select j.* into job from shardclock.jobs j where j.name = remove_job.name for update;
    if not found then
        return false;
    end if;
    if job.declared is not null and job.withdrawn_at is null then
        raise exception 'job "%" is declared by the app, which would add it again: disable it', job.name
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if job.run_timer_key is not null then
        raise exception 'job "%" has a run that is going: disable it, and remove it when that has ended', job.name
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    perform shardclock.drop_job_timer(job.name, 'the job was removed');
    delete from shardclock.jobs j where j.name = job.name;
    return true;
end
$$;

comment on function shardclock.remove_job is $$Removes a job that was added by add_job, or whose code is gone. Its records
stay in the log.

name: the job's name
returns: true, or false: there is no such job
errors: 55000 for a job that an app declares, or of which a run is going
example: select shardclock.remove_job('refresh-eu');
$$;

-- Writes a job as its app declares it: an object whose keys are columns. Returns what that changed: added, back, or the
-- names of the columns. A column that the app declares as before stays as an operator may have changed it.
create function shardclock.declare_job(said jsonb)
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    before shardclock.jobs;
    job shardclock.jobs;
    changed text[];
begin
    select j.* into before from shardclock.jobs j where j.name = said ->> 'name' for update;
    if not found then
        job := jsonb_populate_record(null::shardclock.jobs, said);
        insert into shardclock.jobs (
            name, function, every_s, schedule, zone, missed, overlap, priority, config, policy, declared
        )
        values (
            job.name, job.function, job.every_s, job.schedule, job.zone, job.missed, job.overlap, job.priority,
            job.config, job.policy, said
        )
        returning jobs.* into job;
        perform shardclock.resume_job(job);
        return '{added}';
    end if;
    changed := array(
        select d.key from jsonb_each(said) d where d.value is distinct from before.declared -> d.key order by d.key
    );
    if changed = '{}' and before.withdrawn_at is null then
        return changed;
    end if;
    job := jsonb_populate_record(
        before, (select coalesce(jsonb_object_agg(c.key, said -> c.key), '{}') from unnest(changed) as c (key))
    );
    update shardclock.jobs j
    set function = job.function, every_s = job.every_s, schedule = job.schedule, zone = job.zone, missed = job.missed,
        overlap = job.overlap, priority = job.priority, config = job.config, policy = job.policy, declared = said,
        withdrawn_at = null, declared_at = clock_timestamp(), changed_at = clock_timestamp(),
        state = case when j.state = 'DISABLED' and j.disabled_at is null then 'SCHEDULED' else j.state end
    where j.name = before.name
    returning j.* into job;
    if job.is_enabled and (before.withdrawn_at is not null or changed && '{every_s,schedule,zone,missed}') then
        perform shardclock.drop_job_timer(job.name, 'the app declares another rule');
        perform shardclock.resume_job(job);
    end if;
    return case when before.withdrawn_at is not null then '{back}' else '{}'::text[] end || changed;
end
$$;

comment on function shardclock.declare_job is 'Internal: Writes a job as its app declares it, and says what that changed.';

-- Withdraws the jobs that the app does not declare any more. A job that was added for the function of such a job is
-- withdrawn with it, and comes back with it.
create function shardclock.withdraw_jobs(kept text[])
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    for job in
        update shardclock.jobs j
        set withdrawn_at = clock_timestamp(), changed_at = clock_timestamp()
        where j.withdrawn_at is null
            and case
                when j.declared is not null then j.name <> all (kept)
                else not exists (
                    select from shardclock.jobs d where d.name = any (kept) and d.function = j.function
                )
            end
        returning j.*
    loop
        perform shardclock.stop_job(job, 'its code is gone');
        return next job.name;
    end loop;
    for job in
        update shardclock.jobs j
        set withdrawn_at = null, changed_at = clock_timestamp(),
            state = case when j.state = 'DISABLED' and j.disabled_at is null then 'SCHEDULED' else j.state end
        where j.withdrawn_at is not null
            and j.declared is null
            and exists (select from shardclock.jobs d where d.name = any (kept) and d.function = j.function)
        returning j.*
    loop
        if job.is_enabled then
            perform shardclock.resume_job(job);
        end if;
    end loop;
end
$$;

comment on function shardclock.withdraw_jobs is 'Internal: Withdraws the jobs that the app does not declare any more.';
