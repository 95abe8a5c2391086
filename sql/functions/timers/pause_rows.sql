-- Pauses timers. If a timer is already paused, its pause gets the new end; without `until`, the pause then has no end.
-- A timer that already has the same pause does not change.
--
-- in:    timer_keys bigint[], reason text, of_system boolean, until timestamptz, missed_once text
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: is_of_system, log_of
create or replace function shardclock.pause_rows(
    timer_keys bigint[], reason text, of_system boolean, until timestamptz, missed_once text
)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with paused as (
        -- End the timer's lease, so that a shard that has the timer in memory can't fire the timer.
        update shardclock.timers t
        set paused_due_date = coalesce(t.paused_due_date, t.due_date), due_date = '9999-12-31 23:59:59.999998+00',
            resume_at = until, resume_missed = pause_rows.missed_once,
            changed_at = case when t.paused_due_date is null then clock_timestamp() else t.changed_at end,
            missed_once = null, claimed_by = null, claimed_until = null
        where t.timer_key = any (timer_keys)
            and (
                t.paused_due_date is null
                or (t.resume_at, t.resume_missed) is distinct from (until, pause_rows.missed_once)
            )
            and shardclock.is_of_system(t.target) = of_system
        returning t as timer
    )
    select (p.timer).timer_key
    from paused p
    cross join lateral shardclock.log_of(
        p.timer, 'PAUSED', (p.timer).paused_due_date,
        jsonb_build_object('reason', reason, 'until', until, 'missed', pause_rows.missed_once)
    );
end;

comment on function shardclock.pause_rows is 'Internal: Pauses timers of clients, or timers of jobs and processes.';
