-- Removes a job, with its next start and its waiting starts.
--
-- The waiting starts are deleted, so that a later job with this name does not run them. Clients' timers with this job
-- as their target are not deleted.
--
-- in:    name text
-- out:   boolean: false: the job does not exist
-- locks: the job, the timer of its next start, and the waiting starts
-- index: jobs_pkey, timers_by_name_prefix, deliveries_by_lane
create or replace function shardclock.remove_job(name text)
returns boolean
language plpgsql
set enable_seqscan = off
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
        raise exception 'job % is declared by the app, which would add it again: disable it', quote_literal(job.name)
            using errcode = 'object_not_in_prerequisite_state', constraint = 'job_declared';
    end if;
    if job.run_timer_key is not null then
        raise exception 'job % has a run in progress: disable the job, and remove it when the run has ended',
            quote_literal(job.name)
            using errcode = 'object_not_in_prerequisite_state', constraint = 'job_running';
    end if;
    perform shardclock.drop_job_timer(job.name, 'the job was removed');
    with gone as (
        delete from shardclock.deliveries d
        where d.target = 'job:' || job.name and d.tenant_id = 'default'
        returning d.*
    )
    insert into shardclock.command_log (
        timer_key, due_date, created_at, occurrence, intent, tenant_id, timer_type, target, name, schedule, detail
    )
    select
        g.timer_key, g.due_date, g.created_at, g.occurrence, 'DISCARDED', g.tenant_id, g.timer_type, g.target, g.name,
        g.schedule, jsonb_build_object('reason', 'the job was removed', 'by', current_user)
    from gone g;
    delete from shardclock.jobs j where j.name = job.name;
    return true;
end
$$;

comment on function shardclock.remove_job is $$Removes a job together with its next start and its waiting starts. Only a job that no app declares can be removed: a job from add_job or apply_job, or a withdrawn job. The job's records stay in the log.

name: the job's name
returns: true: the job was removed; false: the job does not exist
errors: 55000 for a job that an app declares, or that has a run
example: select shardclock.remove_job('refresh-eu');
$$;
