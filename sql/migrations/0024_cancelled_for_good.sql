-- A job that is cancelled stays so, however its run ends; and no job has a rule that comes to an end.

-- A run may be ending already, because its time is over or its worker leaves. It is cancelled all the same: its start is
-- not tried again.
create or replace function shardclock.cancel_job(name text, reason text default null)
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
    where j.name = cancel_job.name and j.run_timer_key is not null and j.cancel_asked_at is null
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

-- Null if a rule has no end; else the sentence that says so.
create function shardclock.end_of_rule(schedule text)
returns text
language sql
immutable
parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select
        case
            when schedule ~* '^R\+?[0-9]'
                then format(
                    'schedule "%s" comes to an end, and a job goes on: write R/ without a number', left(schedule, 60)
                )
            when schedule ~* '^R.*/[+-]?P[^/]*/[^/]+$'
                then format(
                    'schedule "%s" comes to an end, and a job goes on: write its start before the duration, or none',
                    left(schedule, 60)
                )
        end
$$;

comment on function shardclock.end_of_rule is 'Internal: Says that a job''s rule comes to an end; null: it does not.';

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

create or replace function shardclock.refused_job(said jsonb)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    fields constant jsonb := '{
        "name": "string", "function": "string", "every_s": "number", "schedule": "string", "zone": "string",
        "missed": "string", "overlap": "string", "priority": "number", "policy": "object", "disabled": "boolean"
    }';
    wrong text;
    known shardclock.jobs;
begin
    if jsonb_typeof(said) is distinct from 'object' then
        return 'job is refused: it must be an object of its fields';
    end if;
    select
        case
            when not fields ? s.key
                then format(
                    'field "%s" is unknown: the fields are name, function, every_s, schedule, zone, missed, overlap, '
                    'priority, config, policy and disabled', left(s.key, 60)
                )
            else format('%s %s is refused: it must be a JSON %s', s.key, left(s.value::text, 60), fields ->> s.key)
        end
    into wrong
    from jsonb_each(said) s
    where s.key <> 'config'
        and (not fields ? s.key or jsonb_typeof(s.value) not in (fields ->> s.key, 'null'))
    order by s.key
    limit 1;
    select j.* into known from shardclock.jobs j where j.name = said ->> 'name';
    wrong := case
        when wrong is not null then wrong
        when (said ->> 'name' ~ '^[a-z0-9][a-z0-9_.-]{0,99}$') is not true
            then format(
                'name "%s" must have 1 to 100 characters of a-z, 0-9, _ . and -, and begin with a letter or digit',
                left(said ->> 'name', 60)
            )
        when (said ->> 'function' ~ '^[^:[:space:][:cntrl:]]{1,200}:[^:[:space:][:cntrl:]]{1,200}$') is not true
            then format('function "%s" must be package.module:function', left(said ->> 'function', 60))
        when known.declared is not null and known.withdrawn_at is null
            then format(
                'name "%s" is of a job that an app declares: change it there, or give this one another name', known.name
            )
        when known.declared is not null
            then format(
                'name "%s" is of a job that an app had declared: remove it (shardclock jobs remove), or give this one '
                'another name', known.name
            )
        when said ->> 'every_s' is not null and said ->> 'schedule' is not null
            then 'give every_s or schedule, or neither: then it runs on request'
        when (said ->> 'every_s')::numeric not between 0.1 and 31536000
            then format('every_s %s must be from 0.1 s to 365 days', left(said ->> 'every_s', 60))
        when said ->> 'missed' not in ('fire_once', 'fire_all', 'skip')
            then format('missed "%s" is unknown: use fire_once, fire_all or skip', left(said ->> 'missed', 60))
        when said ->> 'overlap' not in ('skip', 'queue', 'replace')
            then format('overlap "%s" is unknown: use skip, queue or replace', left(said ->> 'overlap', 60))
        when (said ->> 'priority')::numeric not in (1, 2, 3, 4)
            then format('priority %s must be from 1 to 4', left(said ->> 'priority', 60))
        when octet_length((said -> 'config')::text) > 65536
            then format('config has %s bytes: the limit is 65536 (64 KiB)', octet_length((said -> 'config')::text))
        when length((said -> 'policy')::text) > 2000 then 'policy has more than 2,000 characters'
        when shardclock.end_of_rule(said ->> 'schedule') is not null
            then shardclock.end_of_rule(said ->> 'schedule')
    end;
    if wrong is not null or said ->> 'schedule' is null and said ->> 'zone' is null then
        return wrong;
    end if;
    perform shardclock.check_zone(coalesce(said ->> 'zone', 'UTC'));
    if said ->> 'schedule' is not null then
        perform
            shardclock.check_schedule(said ->> 'schedule'),
            shardclock.agreed_zone(said ->> 'schedule', coalesce(said ->> 'zone', 'UTC'));
    end if;
    return null;
exception
    when invalid_parameter_value then
        return sqlerrm;
end
$$;
