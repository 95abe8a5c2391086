-- A run may be ending already, because its time is over or its worker leaves. It is cancelled all the same: its start
-- is not tried again.
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

comment on function shardclock.cancel_job is $$Tells the present run of a job to end. Its start is not tried again; the
next start stays when it is.

name: the job's name
reason: kept in the record and with the run
returns: TERMINATING (a run is ending), or SCHEDULED or DISABLED: nothing runs
errors: 22023 for a job that is unknown
example: select shardclock.cancel_job('refresh', reason => 'wrong region');
$$;
