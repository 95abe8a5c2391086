-- Resumes paused timers, for clients and at the end of a pause.
--
-- The function stores the choice for missed occurrences only if the schedule is overdue or has no computed due date.
-- Without a choice, the policy of the schedule applies. A row with a choice gets no period_us, so that a shard's fire
-- loop fires the schedule, and not the statement that claims timers. `ended_at` is the moment when the pauses ended;
-- null: a client resumes the timers.
--
-- in:    timer_keys bigint[], of_system boolean, missed_once text, ended_at timestamptz
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: is_of_system, log_of
create or replace function shardclock.resume_rows(
    timer_keys bigint[], of_system boolean, missed_once text, ended_at timestamptz default null
)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with resumed as (
        update shardclock.timers t
        set due_date = t.paused_due_date,
            paused_due_date = null,
            resume_at = null,
            resume_missed = null,
            changed_at = coalesce(ended_at, clock_timestamp()),
            missed_once = case
                when t.schedule is not null
                    and (t.paused_due_date < coalesce(ended_at, clock_timestamp()) or t.anchor_occurrence is null)
                    then resume_rows.missed_once
            end,
            period_us = case when resume_rows.missed_once is null then t.period_us end
        where t.timer_key = any (timer_keys)
            and t.paused_due_date is not null
            and shardclock.is_of_system(t.target) = of_system
        returning t as timer
    )
    select (r.timer).timer_key
    from resumed r
    cross join lateral shardclock.log_of(
        r.timer, 'RESUMED', (r.timer).due_date,
        jsonb_build_object('missed', resume_rows.missed_once, 'until', ended_at)
    );
end;

comment on function shardclock.resume_rows is
    'Internal: Resumes timers of clients, or timers of jobs and processes.';
