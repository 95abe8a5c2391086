-- Prevents new starts of a job, and ends the job's current run.
--
-- in:    name text, reason text
-- out:   text
-- locks: the job, and the timer of its next start
-- index: jobs_pkey, timers_by_name_prefix
create or replace function shardclock.disable_job(name text, reason text default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    perform shardclock.checked_text('reason', reason);
    update shardclock.jobs j
    set disabled_at = coalesce(j.disabled_at, clock_timestamp()),
        disabled_why = coalesce(disable_job.reason, j.disabled_why, 'no reason was given'),
        disabled_by = coalesce(j.disabled_by, current_user),
        changed_at = clock_timestamp()
    where j.name = disable_job.name
    returning j.* into job;
    if not found then
        raise exception '%', (shardclock.unknown_job(disable_job.name, 'default'))[2]
            using errcode = 'no_data_found', constraint = 'unknown_job';
    end if;
    return shardclock.stop_job(job, 'disabled' || coalesce(': ' || disable_job.reason, ''));
end
$$;

comment on function shardclock.disable_job is $$Prevents new starts of a job until a call of enable_job, and ends the job's current run.

as: cancel_job
returns: DISABLED; TERMINATING: a run is ending
example: select shardclock.disable_job('refresh', reason => 'the source is moved');
$$;
