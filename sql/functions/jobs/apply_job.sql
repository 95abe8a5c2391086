-- Creates a job from a description, or changes the job to match the description.
--
-- in:    spec jsonb
-- out:   text[]
-- locks: the job, and the timer of its next start; apps can't declare jobs until the transaction ends
-- index: jobs_pkey, timers_by_name_prefix
create or replace function shardclock.apply_job(spec jsonb)
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
    -- Lock the row before the check, so that the check reads the row's newest version.
    select j.* into before from shardclock.jobs j where j.name = spec ->> 'name' for update;
    refusal := shardclock.refused_job(spec);
    if refusal is not null then
        raise exception '%', refusal using errcode = 'invalid_parameter_value', constraint = 'invalid_job';
    end if;
    changes := shardclock.changes_of_job(spec);
    if changes = '{}' then
        return changes;
    end if;
    job := shardclock.described_job(spec);
    is_disabled := coalesce((spec ->> 'disabled')::boolean, before.disabled_at is not null);
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

comment on function shardclock.apply_job is $$Creates a job from a description, or changes the job to match the description. For a file of jobs, call this function once for each line. The change takes effect immediately. If spec has no value for a column, the column gets its default; but config and disabled keep their values. If no app has the job's function, the job is stored, and starts as soon as an app has the function.

spec: an object with the keys name, function (package.module:function), and optionally every_s, schedule, zone, missed, overlap, priority, config, policy and disabled
returns: {added}, or the names of the changed columns; an empty array if nothing has changed
errors: 22023 for a wrong value, or a name that an app declares, with a message that names the value
example: select shardclock.apply_job('{"name": "refresh-eu", "function": "app:refresh", "every_s": 3600}');
$$;
