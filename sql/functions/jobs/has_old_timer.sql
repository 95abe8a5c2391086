-- Returns whether a job's next start was planned while Postgres's clock was ahead.
--
-- In this case the time of the timer's last change (or of its creation) is more than `slack` in the future.
--
-- in:    job text, slack interval
-- out:   boolean
-- locks: nothing
-- index: timers_by_name_prefix
create or replace function shardclock.has_old_timer(job text, slack interval)
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
    'Internal: Returns whether the next start of a job''s rule was planned while the clock was ahead.';
