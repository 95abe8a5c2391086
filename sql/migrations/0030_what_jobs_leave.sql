-- Two cases in which jobs made starts that nobody wanted, or none: a job was removed, or the clock was set back.

-- The starts that wait go with the job: else the next job of this name would run them. Timers that a client has scheduled
-- with the job as their target stay.
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

comment on function shardclock.remove_job is $$Removes a job that was added by add_job, or whose code is gone. Its next start and
the starts that wait go with it. Its records stay in the log.

name: the job's name
returns: true, or false: there is no such job
errors: 55000 for a job that an app declares, or of which a run is going
example: select shardclock.remove_job('refresh-eu');
$$;

-- A few at a time, so that each call comes to its end; who calls comes again at once.
create or replace function shardclock.mend_job_waits(holder bigint)
returns table (job text, repair text)
language plpgsql
set enable_seqscan = off
set lock_timeout = '100ms'
set search_path = pg_catalog, pg_temp
as $$
declare
    found_one shardclock.jobs;
    ended_ahead boolean;
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
        limit 200
        for update of j skip locked
    loop
        begin
            -- Its last run ended while the clock was ahead: so its end and its rest are in the future. If only a start
            -- was written then, the rest is right, and stays.
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
            -- A crash is looked for among the deliveries that are due, and only when the lease is over.
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
            -- Somebody has locked its timer or its delivery: the next call mends it, and this one the others.
            null;
        end;
    end loop;
end
$$;

-- Whether a job's next start, by a cron or repeat rule, was planned while the clock was ahead. If somebody has changed
-- it since, that moment counts.
create function shardclock.has_old_timer(job text, slack interval)
returns boolean
language sql
stable
begin atomic
    select exists (
        select from shardclock.timers t
        where t.tenant_id = 'default' and t.name = 'job:' || has_old_timer.job and t.target = t.name
            and t.paused_due_date is null and t.schedule is not null
            and coalesce(t.changed_at, t.created_at) > clock_timestamp() + has_old_timer.slack
    );
end;

comment on function shardclock.has_old_timer is
    'Internal: Says whether a job''s start on a grid was planned when the clock was ahead.';
revoke all on function shardclock.has_old_timer(text, interval) from public;

-- Whether a job's next start, or one that is due, was written when the clock was ahead. Each probes an index.
create function shardclock.waits_for_old_clock(job text, slack interval)
returns boolean
language sql
stable
begin atomic
    select
        shardclock.has_old_timer(waits_for_old_clock.job, waits_for_old_clock.slack)
        or exists (
            select from shardclock.deliveries d
            where d.target = 'job:' || waits_for_old_clock.job and d.tenant_id = 'default'
                and d.next_attempt_at > clock_timestamp() + waits_for_old_clock.slack
                -- A retry waits by itself, but not while it is being made.
                and (d.claimed_by is not null or d.failed_attempts + d.given_back = 0)
        );
end;

comment on function shardclock.waits_for_old_clock is
    'Internal: Says whether a start of a job was written when the clock was ahead.';
revoke all on function shardclock.waits_for_old_clock(text, interval) from public;
