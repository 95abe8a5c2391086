-- Adds a job that has the same function as a declared job, but another rule and configuration.
--
-- in:    name text, of_job text, every interval, schedule text, zone text, missed text, overlap text, priority integer,
--        config jsonb
-- out:   text: the job's state
-- locks: the new rows; apps can't declare jobs until the transaction ends
-- index: jobs_pkey
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
                'name %L must have 1 to 100 characters of a-z, 0-9, _ . and -, and begin with a letter or digit',
                left(name, 60)
            )
        when model.name is null
            then format('of_job %L is unknown: name a job that an app declares', left(of_job, 60))
        when model.withdrawn_at is not null then (shardclock.unknown_job(of_job, 'default'))[2]
        when num_nonnulls(every, schedule) > 1 then 'give every or schedule, or neither: then it runs on request'
        when extract(year from every) <> 0 or extract(month from every) <> 0
            then format('every %L has years or months, whose length depends on the date: give days', every)
        when extract(epoch from every) not between 0.1 and 31536000
            then format('every %L must be from 0.1 s to 365 days', every)
        when missed is null or missed not in ('fire_once', 'fire_all', 'skip')
            then format('missed %L is unknown: use fire_once, fire_all or skip', left(missed, 60))
        when overlap not in ('skip', 'queue', 'replace')
            then format('overlap %L is unknown: use skip, queue or replace', left(overlap, 60))
        when priority not between 1 and 4 then format('priority %s must be from 1 to 4', priority)
        when shardclock.end_of_rule(schedule) is not null then shardclock.end_of_rule(schedule)
        when octet_length(config::text) > 65536
            then format('config has %s bytes: the limit is 65536 (64 KiB)', octet_length(config::text))
    end;
    if refusal is not null then
        raise exception '%', refusal using errcode = 'invalid_parameter_value', constraint = 'invalid_job';
    end if;
    if schedule is not null then
        perform shardclock.check_zone(zone), shardclock.check_schedule(schedule, zone);
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
        raise exception 'job % exists: remove it first, or choose another name', quote_literal(name)
            using errcode = 'unique_violation', constraint = 'job_exists';
    end if;
    perform shardclock.resume_job(job);
    return job.state;
end
$$;

comment on function shardclock.add_job is $$Adds a job that runs the function of a declared job. The new job has its own
rule and its own configuration, and takes effect immediately.

name: the new job's name
of_job: a declared job; the new job has the same function, retries, time limits and resources
every: the interval from the end of a run to the next start, from 0.1 s to 365 days, without months and years
schedule: an ISO 8601 repeat such as R/PT1H, or a cron rule of five or six fields; without every and schedule, the job only runs on request
zone: the IANA time zone of the schedule
missed: the rule for missed starts of the schedule: fire_once, fire_all or skip
overlap: skip, queue or replace; null: the value of of_job
priority: 1 to 4, 1 comes first; null: the value of of_job
config: the run.config of its function; null: the value of of_job
returns: SCHEDULED
errors: 22023 for a wrong argument, with a message that names the argument; 23505 for a name that is in use
example: select shardclock.add_job('refresh-eu', of_job => 'refresh', every => 'PT1H', config => '{"region": "eu"}');
$$;
