-- What an app declares, and what a client adds or describes, see each other: a client that judges a job's name and
-- function does not do so beside a declaration that is under way. A job stayed withdrawn whose code had just come, and
-- one that a client added for a job that was just withdrawn went on without code.
create function shardclock.lock_job_names(shared boolean)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    select case
        when shared then pg_advisory_xact_lock_shared(hashtextextended('shardclock.jobs', 0))
        else pg_advisory_xact_lock(hashtextextended('shardclock.jobs', 0))
    end
$$;

comment on function shardclock.lock_job_names is
    'Internal: Keeps what an app declares and what clients add from changing at once, until the transaction ends.';

-- An app's jobs are declared alone: those that are new or changed are written, those that are missing are withdrawn. Who
-- declares doesn't wait long for a client's open transaction: behind it other clients would wait, too, and the client
-- itself, if it has locked a job that is declared. It tries again a little later.
create function shardclock.declare_jobs(said jsonb[], names text[])
returns table (job text, changes text[])
language plpgsql
set lock_timeout = '500ms'
set search_path = pg_catalog, pg_temp
as $$
begin
    perform shardclock.lock_job_names(shared => false);
    return query
        select s.said ->> 'name', d.changes
        from unnest(declare_jobs.said) as s (said)
        cross join lateral shardclock.declare_job(s.said) as d (changes)
        where d.changes <> '{}';
    return query
        select w.name, '{withdrawn}'::text[]
        from shardclock.withdraw_jobs(declare_jobs.names) as w (name);
end
$$;

comment on function shardclock.declare_jobs is
    'Internal: Makes these the jobs of the app, withdraws all others that an app declared, and says what that changed.';

create or replace function shardclock.add_job(
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
    perform shardclock.lock_job_names(shared => true);
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
        when shardclock.end_of_rule(schedule) is not null then shardclock.end_of_rule(schedule)
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

create or replace function shardclock.apply_job(said jsonb)
returns text[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    before shardclock.jobs;
    job shardclock.jobs;
    refusal text;
    changes text[];
    is_here boolean;
    is_disabled boolean;
begin
    perform shardclock.lock_job_names(shared => true);
    -- Judged when the row is locked.
    select j.* into before from shardclock.jobs j where j.name = said ->> 'name' for update;
    refusal := shardclock.refused_job(said);
    if refusal is not null then
        raise exception '%', refusal using errcode = 'invalid_parameter_value';
    end if;
    changes := shardclock.changes_of_job(said);
    if changes = '{}' then
        return changes;
    end if;
    job := shardclock.described_job(said);
    is_disabled := coalesce((said ->> 'disabled')::boolean, before.disabled_at is not null);
    is_here := exists (
        select from shardclock.jobs d
        where d.declared is not null and d.withdrawn_at is null and d.function = job.function
    );
    insert into shardclock.jobs as j (
        name, function, every_s, schedule, zone, missed, overlap, priority, config, policy, withdrawn_at, disabled_at,
        disabled_why, disabled_by
    )
    values (
        job.name, job.function, job.every_s, job.schedule, job.zone, job.missed, job.overlap, job.priority, job.config,
        job.policy,
        case when not is_here then coalesce(before.withdrawn_at, clock_timestamp()) end,
        case when is_disabled then coalesce(before.disabled_at, clock_timestamp()) end,
        case when is_disabled then coalesce(before.disabled_why, 'it is described as disabled') end,
        case when is_disabled then coalesce(before.disabled_by, current_user) end
    )
    on conflict (name) do update
    set function = excluded.function, every_s = excluded.every_s, schedule = excluded.schedule, zone = excluded.zone,
        missed = excluded.missed, overlap = excluded.overlap, priority = excluded.priority, config = excluded.config,
        policy = excluded.policy, withdrawn_at = excluded.withdrawn_at, disabled_at = excluded.disabled_at,
        disabled_why = excluded.disabled_why, disabled_by = excluded.disabled_by, changed_at = clock_timestamp(),
        state = case
            when is_here and not is_disabled and j.run_timer_key is null then 'SCHEDULED'
            else j.state
        end
    returning j.* into job;
    if not job.is_enabled then
        perform shardclock.stop_job(
            job, case when is_disabled then 'disabled: ' || job.disabled_why else 'no app has its code' end
        );
    elsif before.is_enabled is not true or changes && '{every_s,schedule,zone,missed}' then
        perform shardclock.drop_job_timer(job.name, 'the job has another rule');
        perform shardclock.resume_job(job);
    end if;
    return changes;
end
$$;
