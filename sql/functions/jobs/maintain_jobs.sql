-- Repairs jobs after a failover or a manual change: runs without a delivery, and jobs without a next start.
--
-- Only the worker with the first part of the slots may call this function. The function locks each job and reads it
-- again, because another transaction may have repaired the job in the meantime.
--
-- in:    holder bigint
-- out:   job text, repair text
-- locks: the jobs that it repairs
-- index: jobs_pkey, all of it; deliveries_pkey, deliveries_by_lane and timers_by_name_prefix, a probe for each job
create or replace function shardclock.maintain_jobs(holder bigint)
returns table (job text, repair text)
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    found_one shardclock.jobs;
begin
    -- If the caller no longer has the first part of the slots, the call does nothing.
    if not exists (
        select from shardclock.holders h
        where h.holder = maintain_jobs.holder and h.ended_at is null and h.part = 0
            and shardclock.hold_reason(h.identity) is null
    ) then
        return;
    end if;
    for found_one in
        select j.*
        from shardclock.jobs j
        where j.run_timer_key is not null
            and not exists (select from shardclock.deliveries d where d.timer_key = j.run_timer_key)
        for update of j skip locked
    loop
        continue when exists (select from shardclock.deliveries d where d.timer_key = found_one.run_timer_key);
        -- A run without a delivery counts as crashed.
        update shardclock.jobs j
        set state = case when j.is_enabled then 'SCHEDULED' else 'DISABLED' end,
            run_timer_key = null, run_claims = null, run_holder = null, run_attempt = null, run_started_at = null,
            cancel_asked_at = null, cancel_why = null, last_finish = clock_timestamp(), last_outcome = 'CRASHED',
            last_reason = 'its delivery is gone'
        where j.name = found_one.name;
        update shardclock.job_runs r
        set outcome = 'CRASHED', ended_at = clock_timestamp(), reason = 'its delivery is gone'
        where r.timer_key = found_one.run_timer_key and r.claims = found_one.run_claims and r.outcome is null;
        perform shardclock.log_of_job(
            found_one.name, case when found_one.is_enabled then 'SCHEDULED' else 'DISABLED' end,
            found_one.run_timer_key, '{"outcome": "CRASHED", "reason": "its delivery is gone"}'
        );
        job := found_one.name;
        repair := 'its mark had no delivery';
        return next;
    end loop;
    for found_one in
        select j.*
        from shardclock.jobs j
        where j.is_enabled
            and j.run_timer_key is null
            and num_nonnulls(j.every_s, j.schedule) > 0
            and shardclock.has_no_start(j.name)
        for update of j skip locked
    loop
        continue when found_one.run_timer_key is not null or not shardclock.has_no_start(found_one.name);
        perform shardclock.plan_job(
            found_one, shardclock.next_start(found_one.every_s, found_one.last_finish)
        );
        job := found_one.name;
        repair := 'it had no next start';
        return next;
    end loop;
end
$$;

comment on function shardclock.maintain_jobs is
    'Internal: Repairs jobs that are marked as running without a delivery, or that have no next start, after a failover or a manual change.';
