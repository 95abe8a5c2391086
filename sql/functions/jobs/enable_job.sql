-- Allows a disabled job to start again, and plans its next start.
--
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
    why_not text[];
begin
    select j.* into job from shardclock.jobs j where j.name = enable_job.name for update;
    if not found or job.withdrawn_at is not null then
        why_not := shardclock.unknown_job(enable_job.name, 'default');
        raise exception '%', why_not[2]
            using errcode = case why_not[1] when 'unknown_job' then 'P0002' else '55000' end, constraint = why_not[1];
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

comment on function shardclock.enable_job is $$Allows a disabled job to start again. A job with an interval starts one interval after the end of its last run, or immediately if this moment has passed.

name: the job's name
returns: SCHEDULED; or the job's state, if the job was not disabled, or if its last run is still ending
errors: P0002 for an unknown job; 55000 for a job without code
example: select shardclock.enable_job('refresh');
$$;
