-- Withdraws the jobs that the app no longer declares.
--
-- A job from add_job runs the function of a declared job. It is withdrawn and restored together with this declared job.
--
-- in:    kept text[]
-- out:   setof text: the names
-- locks: the jobs, and the timers of their next starts
-- index: jobs_pkey, all of it
create or replace function shardclock.withdraw_jobs(kept text[])
returns setof text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    job shardclock.jobs;
begin
    for job in
        update shardclock.jobs j
        set withdrawn_at = clock_timestamp(), changed_at = clock_timestamp()
        where j.withdrawn_at is null
            and case
                when j.declared is not null then j.name <> all (kept)
                else not exists (
                    select from shardclock.jobs d where d.name = any (kept) and d.function = j.function
                )
            end
        returning j.*
    loop
        perform shardclock.stop_job(job, 'its code is gone');
        return next job.name;
    end loop;
    for job in
        update shardclock.jobs j
        set withdrawn_at = null, changed_at = clock_timestamp(),
            state = case when j.state = 'DISABLED' and j.disabled_at is null then 'SCHEDULED' else j.state end
        where j.withdrawn_at is not null
            and j.declared is null
            and exists (select from shardclock.jobs d where d.name = any (kept) and d.function = j.function)
        returning j.*
    loop
        if job.is_enabled then
            perform shardclock.resume_job(job);
        end if;
    end loop;
end
$$;

comment on function shardclock.withdraw_jobs is 'Internal: Withdraws the jobs that the app no longer declares.';
