-- Returns whether the timer or the delivery of a job's start was written while the clock was ahead.
--
-- Each of the two checks is a single probe of an index.
--
-- in:    job text, slack interval
-- out:   boolean
-- locks: nothing
-- index: deliveries_by_lane, timers_by_name_prefix
-- needs: has_old_timer
create or replace function shardclock.waits_for_old_clock(job text, slack interval)
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
                -- For an unclaimed delivery, a date in the future may also be the retry of a failed attempt.
                and (d.claimed_by is not null or d.failed_attempts + d.given_back = 0)
        );
end;

comment on function shardclock.waits_for_old_clock is
    'Internal: Returns whether a start of a job was written while the clock was ahead.';
