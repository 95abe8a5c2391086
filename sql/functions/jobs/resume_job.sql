-- Plans the next start of a job that may start again.
--
-- A running job with an interval gets no start here, because the end of the run plans the next start.
--
-- in:    resumed shardclock.jobs
-- out:   nothing
-- locks: the new timer
-- index: timers_by_name_prefix
create or replace function shardclock.resume_job(resumed shardclock.jobs)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    key bigint;
begin
    if resumed.run_timer_key is null or resumed.schedule is not null then
        key := shardclock.plan_job(resumed, shardclock.next_start(resumed.every_s, resumed.last_finish));
    end if;
    if resumed.run_timer_key is null then
        perform shardclock.log_of_job(resumed.name, 'SCHEDULED', key, '{}');
    end if;
end
$$;

comment on function shardclock.resume_job is 'Internal: Plans the next start of a job that may start again.';
