-- After the clock was set back, shortens the waits of jobs that were computed while the clock was ahead.
--
-- The worker with the first part of the slots repeats this call until the result is empty.
--
-- in:    holder bigint
-- out:   job text, repair text; at most 200 jobs
-- locks: the jobs that it repairs, their timers and deliveries; skips jobs with a locked row
-- index: jobs_pkey, all of it; timers_by_name_prefix and deliveries_by_lane, a probe for each job
create or replace function shardclock.repair_job_waits(holder bigint)
returns table (job text, repair text)
language plpgsql
set enable_seqscan = off
set lock_timeout = '100ms'
set search_path = pg_catalog, pg_temp
as $$
declare
    found_one shardclock.jobs;
    ended_ahead boolean;
    slack constant interval := '1 minute'; -- smaller corrections of the clock are ignored
begin
    if not exists (
        select from shardclock.holders h
        where h.holder = repair_job_waits.holder and h.ended_at is null and h.part = 0
            and shardclock.hold_reason(h.identity) is null
    ) then
        return;
    end if;
    for found_one in
        select j.*
        from shardclock.jobs j
        where j.last_finish > clock_timestamp() + slack
            or j.not_before > clock_timestamp() + interval '1 day' -- longer than any pause after a run
            or shardclock.waits_for_old_clock(j.name, slack)
        limit 200
        for update of j skip locked
    loop
        begin
            -- If the job's last run ended while the clock was ahead, the end of the run and the end of the pause after
            -- it are in the future. If only a start was written while the clock was ahead, the pause after the last run
            -- is correct and does not change.
            ended_ahead := (
                found_one.last_finish > clock_timestamp() + slack
                or found_one.not_before > clock_timestamp() + interval '1 day'
            ) is true;
            if ended_ahead then
                update shardclock.jobs j
                set last_finish = least(j.last_finish, clock_timestamp()), not_before = null
                where j.name = found_one.name
                returning j.* into found_one;
            end if;
            if found_one.is_enabled and (
                shardclock.has_old_timer(found_one.name, slack)
                or ended_ahead and exists (
                    select from shardclock.timers t
                    where t.tenant_id = 'default' and t.name = 'job:' || found_one.name and t.target = t.name
                        and t.paused_due_date is null and t.schedule is null
                        and t.due_date > clock_timestamp() + found_one.every_s * interval '1 second' + slack
                )
            ) then
                perform shardclock.drop_job_timer(found_one.name, 'the clock was set back');
                perform shardclock.plan_job(
                    found_one, shardclock.next_start(found_one.every_s, found_one.last_finish)
                );
            end if;
            -- Move both dates back, because a worker finds a crash only if the delivery is due and its lease has ended.
            update shardclock.deliveries d
            set next_attempt_at = least(d.next_attempt_at, clock_timestamp()),
                claimed_until = case
                    when d.claimed_until is not null then least(d.claimed_until, clock_timestamp() + slack)
                end
            where d.target = 'job:' || found_one.name and d.tenant_id = 'default'
                and d.next_attempt_at > clock_timestamp() + slack
                and (ended_ahead or d.claimed_by is not null or d.failed_attempts + d.given_back = 0);
            job := found_one.name;
            repair := 'the clock was set back, and it waited for the old one';
            return next;
        exception when lock_not_available then
            -- Another transaction has locked the job's timer or delivery: the next call repairs this job.
            null;
        end;
    end loop;
end
$$;

comment on function shardclock.repair_job_waits is
    'Internal: After the clock was set back, ends the waits of jobs that were computed while the clock was ahead.';
