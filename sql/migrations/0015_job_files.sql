-- Jobs of a file: each is written as it is described, unless an app declares it. And jobs whose times are of a clock
-- that was set back.

-- The row that a job has once it is as described: an object whose keys are columns, and `disabled`. What it leaves out,
-- or gives as null, is as by default; the configuration stays.
create function shardclock.described_job(said jsonb)
returns shardclock.jobs
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    select j.* into job from shardclock.jobs j where j.name = said ->> 'name';
    job := jsonb_populate_record(
        job,
        '{"every_s": null, "schedule": null, "zone": "UTC", "missed": "fire_once", "overlap": "skip", "priority": 2,
            "policy": {}}'::jsonb
            || (
                select coalesce(jsonb_object_agg(s.key, s.value), '{}')
                from jsonb_each(said - 'disabled') s
                where s.value <> 'null'
            )
    );
    if job.schedule is not null then
        job.zone := shardclock.agreed_zone(job.schedule, job.zone);
    end if;
    return job;
end
$$;

comment on function shardclock.described_job is 'Internal: Gives the row of a job as it is described.';

-- Null if a job can be as described; else the sentence that says why not.
create function shardclock.refused_job(said jsonb)
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
        when said ->> 'schedule' ~ '^R\+?[0-9]'
            then format(
                'schedule "%s" comes to an end, and a job goes on: write R/ without a number',
                left(said ->> 'schedule', 60)
            )
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

comment on function shardclock.refused_job is 'Internal: Says why a job can''t be as described; null: it can.';

-- What is otherwise than before, if a job becomes as described: {added}, or the names of columns; none: nothing.
create function shardclock.changes_of_job(said jsonb)
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
declare
    before shardclock.jobs;
begin
    select j.* into before from shardclock.jobs j where j.name = said ->> 'name';
    if not found then
        return '{added}';
    end if;
    return array(
        select d.key
        from jsonb_each(to_jsonb(shardclock.described_job(said))) d
        where d.key = any ('{function,every_s,schedule,zone,missed,overlap,priority,config,policy}')
            and d.value is distinct from to_jsonb(before) -> d.key
        union all
        select 'disabled' where (said ->> 'disabled')::boolean <> (before.disabled_at is not null)
        order by 1
    );
end
$$;

comment on function shardclock.changes_of_job is
    'Internal: Says what would be otherwise than before, if a job became as described.';

create function shardclock.apply_job(said jsonb)
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

comment on function shardclock.apply_job is $$Makes a job as it is described, whether it is there already or not; a line
of a file of jobs becomes this. It takes effect at once. What it leaves out is as by default, but config and disabled
stay as they are. A job whose function no app has is kept, and starts when an app has it.

said: an object: name, function (package.module:function), other columns of shardclock.jobs up to policy, and disabled
returns: {added}, or the names of what is otherwise than before; an empty array: it was so already
errors: 22023 for what can't be a job, or a name that an app declares, in a sentence
example: select shardclock.apply_job('{"name": "refresh-eu", "function": "app:refresh", "every_s": 3600}');
$$;

-- Ends the waits of jobs that count from a moment that has not come yet: the clock was ahead then, and was set back. A
-- job would wait for as long as the clock had been ahead. Only the worker that keeps the first part does this.
create function shardclock.mend_job_waits(holder bigint)
returns table (job text, repair text)
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    found_one shardclock.jobs;
    slack constant interval := '1 minute'; -- a clock that is set right by less is none that was wrong
begin
    if not exists (
        select from shardclock.holders h
        where h.holder = mend_job_waits.holder and h.ended_at is null and h.part = 0
            and shardclock.hold_reason(h.identity) is null
    ) then
        return;
    end if;
    for found_one in
        select j.*
        from shardclock.jobs j
        where j.last_finish > clock_timestamp() + slack
            or j.not_before > clock_timestamp() + interval '1 day' -- no rest is so long
        for update of j skip locked
    loop
        update shardclock.jobs j
        set last_finish = least(j.last_finish, clock_timestamp()), not_before = null
        where j.name = found_one.name
        returning j.* into found_one;
        if found_one.is_enabled and found_one.every_s is not null and exists (
            select from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || found_one.name and t.paused_due_date is null
                and t.due_date > clock_timestamp() + found_one.every_s * interval '1 second' + slack
        ) then
            perform shardclock.drop_job_timer(found_one.name, 'the clock was set back');
            perform shardclock.plan_job(
                found_one, shardclock.next_start(found_one.every_s, found_one.last_finish)
            );
        end if;
        update shardclock.deliveries d
        set next_attempt_at = clock_timestamp()
        where d.target = 'job:' || found_one.name and d.tenant_id = 'default' and d.claimed_by is null
            and d.failed_attempts + d.given_back > 0 and d.next_attempt_at > clock_timestamp() + slack;
        job := found_one.name;
        repair := 'the clock was set back, and it waited for the old one';
        return next;
    end loop;
end
$$;

comment on function shardclock.mend_job_waits is
    'Internal: Ends the waits of jobs that count from a moment of a clock that was ahead and was set back.';
