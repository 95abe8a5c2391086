-- Makes many pending timers due now; a schedule gets one additional occurrence.
--
-- The additional occurrence takes the number of the pending occurrence, which gets the next number. The dates of the
-- pending occurrence don't change. If the schedule has no computed due date yet, plan_schedules writes its dates later.
-- If the schedule already has a run on request for a later date, this function makes that run due now.
--
-- in:    timer_keys bigint[], operation text
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key; command_log_by_operation
-- needs: checked_text, is_of_system, log_of, was_run
create or replace function shardclock.run_timers(timer_keys bigint[], operation text default null)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with old as materialized (
        select t.timer_key, t.due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
            and (
                -- clock_timestamp() instead of now(): another transaction may have made the timer due after this
                -- transaction began.
                t.due_date > clock_timestamp()
                -- A schedule without a computed due date has a placeholder in the past. The placeholder makes a shard
                -- compute the due date, but not fire the schedule.
                or (t.schedule is not null and t.anchor_occurrence is null and t.kept_due_date is null)
            )
            and t.paused_due_date is null
            and shardclock.is_of_system(t.target) is not true
            and (
                operation is null
                or not shardclock.was_run(
                    shardclock.checked_text('operation', operation, 200), t.timer_key, t.name, t.tenant_id
                )
            )
        order by t.timer_key
        for update
    ),
    clock as materialized (
        -- Read the clock after the locks of all rows, so that this time is later than each firing before the locks.
        select clock_timestamp() as at from (select count(*) from old) locked
    ),
    running as (
        update shardclock.timers t
        set due_date = (select c.at from clock c),
            changed_at = (select c.at from clock c),
            kept_due_date = case when t.schedule is not null then coalesce(t.kept_due_date, t.due_date) end,
            anchor_occurrence = t.anchor_occurrence
                + case when t.schedule is not null and t.kept_due_date is null then 1 else 0 end,
            repetitions = t.repetitions
                + case
                    when t.schedule is not null and t.kept_due_date is null and t.repetitions between 1 and 2147483646
                    then 1 else 0
                end,
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from running r
    join old on old.timer_key = (r.timer).timer_key
    cross join lateral shardclock.log_of(
        r.timer,
        'RESCHEDULED',
        old.due_date,
        jsonb_build_object('due_date', (r.timer).due_date, 'run_now', true, 'operation', operation)
    );
end;

comment on function shardclock.run_timers is $$Makes the pending timers among the given timers due now. A schedule runs one additional time, and keeps its due dates. Timers of jobs and processes stay unchanged.

timer_keys: the timers' keys, for example from find_timers; timers that have ended are ignored
operation: a name for this run; a repeated call with the same name runs no timer again
returns: the keys of the timers that this call made due, without paused timers and timers that were due already
errors: 22023 for an operation of more than 200 characters
example: select shardclock.run_timers(array(select timer_key from shardclock.find_timers(tenant_id => 'acme', name_prefix => 'report-')));
$$;
