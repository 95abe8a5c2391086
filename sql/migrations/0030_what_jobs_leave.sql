-- A job that is removed leaves no start behind, and one whose clock was set back waits for none that was planned before.

-- A start that waits would be run by the next job of this name, if there is one before it is due.
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
        raise exception 'job "%" is declared by the app, which would add it again: disable it', job.name
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if job.run_timer_key is not null then
        raise exception 'job "%" has a run that is going: disable it, and remove it when that has ended', job.name
            using errcode = 'object_not_in_prerequisite_state';
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

create or replace function shardclock.mend_job_waits(holder bigint)
returns table (job text, repair text)
language plpgsql
set enable_seqscan = off
set search_path = pg_catalog, pg_temp
as $$
declare
    found_one shardclock.jobs;
    slack constant interval := '1 minute'; -- a clock that is set right by less is none that was wrong
begin
    if not exists (
        select from shardclock.holders h
        where h.holder = mend_job_waits.holder and h.ended_at is null and h.part = 0
            and shardclock.hold_reason(h.identity) is null
    ) then
        return;
    end if;
    for found_one in
        select j.*
        from shardclock.jobs j
        where j.last_finish > clock_timestamp() + slack
            or j.not_before > clock_timestamp() + interval '1 day' -- no rest is so long
            or shardclock.waits_for_old_clock(j.name, slack)
        for update of j skip locked
    loop
        update shardclock.jobs j
        set last_finish = least(j.last_finish, clock_timestamp()), not_before = null
        where j.name = found_one.name
        returning j.* into found_one;
        if found_one.is_enabled and exists (
            select from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || found_one.name and t.paused_due_date is null
                and case
                    when found_one.every_s is null then t.created_at > clock_timestamp() + slack
                    else t.due_date > clock_timestamp() + found_one.every_s * interval '1 second' + slack
                end
        ) then
            perform shardclock.drop_job_timer(found_one.name, 'the clock was set back');
            perform shardclock.plan_job(
                found_one, shardclock.next_start(found_one.every_s, found_one.last_finish)
            );
        end if;
        update shardclock.deliveries d
        set next_attempt_at = clock_timestamp()
        where d.target = 'job:' || found_one.name and d.tenant_id = 'default' and d.claimed_by is null
            and d.next_attempt_at > clock_timestamp() + slack;
        job := found_one.name;
        repair := 'the clock was set back, and it waited for the old one';
        return next;
    end loop;
end
$$;

-- Whether a job's next start, or one that is due, was written when the clock was ahead. Each probes an index.
create function shardclock.waits_for_old_clock(job text, slack interval)
returns boolean
language sql
stable
begin atomic
    select
        exists (
            select from shardclock.timers t
            where t.tenant_id = 'default' and t.name = 'job:' || waits_for_old_clock.job
                and t.paused_due_date is null and t.schedule is not null
                and t.created_at > clock_timestamp() + waits_for_old_clock.slack
        )
        or exists (
            select from shardclock.deliveries d
            where d.target = 'job:' || waits_for_old_clock.job and d.tenant_id = 'default'
                and d.claimed_by is null
                -- A retry waits by itself.
                and d.failed_attempts + d.given_back = 0
                and d.next_attempt_at > clock_timestamp() + waits_for_old_clock.slack
        );
end;

comment on function shardclock.waits_for_old_clock is
    'Internal: Says whether a start of a job was written when the clock was ahead.';
revoke all on function shardclock.waits_for_old_clock(text, interval) from public;
