-- Ends the current run of a job, without further attempts.
--
-- This call also cancels a run that is ending already, because of its time limit or its worker's shutdown.
--
-- in:    name text, reason text
-- out:   text
-- locks: the job
-- index: jobs_pkey
create or replace function shardclock.cancel_job(name text, reason text default null)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    state text;
    key bigint;
begin
    perform shardclock.checked_text('reason', reason);
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
        raise exception '%', (shardclock.unknown_job(cancel_job.name, 'default'))[2]
            using errcode = 'no_data_found', constraint = 'unknown_job';
    end if;
    return state;
end
$$;

comment on function shardclock.cancel_job is $$Ends the current run of a job. The run gets no further attempt; the time of the next start does not change.

name: the job's name
reason: stored in the log record and with the run
returns: TERMINATING: a run is ending; SCHEDULED or DISABLED: the job has no run
errors: 22023 for a reason of more than 1,000 characters; P0002 for an unknown job
example: select shardclock.cancel_job('refresh', reason => 'wrong region');
$$;
