-- Ends the run of a disabled or withdrawn job, and cancels its next start.
--
-- in:    stopped shardclock.jobs, why text
-- out:   text: the job's state
-- locks: the job, and the timer of its next start
-- index: jobs_pkey, timers_by_name_prefix
create or replace function shardclock.stop_job(stopped shardclock.jobs, why text)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint := shardclock.drop_job_timer(stopped.name, why);
    now_is text := case when stopped.run_timer_key is null then 'DISABLED' else 'TERMINATING' end;
begin
    update shardclock.jobs j
    set state = now_is,
        cancel_asked_at = case
            when j.run_timer_key is not null then coalesce(j.cancel_asked_at, clock_timestamp())
        end,
        cancel_why = case when j.run_timer_key is not null then coalesce(j.cancel_why, stop_job.why) end
    where j.name = stopped.name;
    if stopped.state <> now_is then
        perform shardclock.log_of_job(
            stopped.name, now_is, coalesce(stopped.run_timer_key, key), jsonb_build_object('reason', why)
        );
    end if;
    return now_is;
end
$$;

comment on function shardclock.stop_job is
    'Internal: Ends the run of a job that was disabled or withdrawn, and cancels its next start.';
