-- in:    name text
-- out:   text
-- locks: the job
-- index: jobs_pkey
create or replace function shardclock.enable_job(name text)
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
