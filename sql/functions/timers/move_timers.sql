-- Moves timers to a date or by a shift; returns the moved timers' keys. A repeated operation moves no timer again.
--
-- in:    timer_keys bigint[], new_due timestamptz, shift interval, operation text
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key; command_log_by_operation
-- needs: later, log_of
create or replace function shardclock.move_timers(timer_keys bigint[], new_due timestamptz, shift interval, operation text)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with old as materialized (
        select t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
            -- A schedule without a computed due date can't be shifted, but a requested run of it can move to a date.
            and (t.anchor_occurrence is not null or (t.kept_due_date is not null and new_due is not null))
            and (
                operation is null
                or not exists (
                    select from shardclock.command_log l
                    where l.timer_key = t.timer_key
                        and l.intent = 'RESCHEDULED'
                        and l.detail ->> 'operation' = operation
                        -- A run_timers call with the same operation name counts as another operation.
                        and l.detail -> 'run_now' is null
                )
            )
        order by t.timer_key
        for update
    ),
    moved as (
        update shardclock.timers t
        set due_date = case
                when t.paused_due_date is not null then t.due_date
                else coalesce(new_due, shardclock.later(t.due_date, shift, t.zone))
            end,
            paused_due_date = case
                when t.paused_due_date is not null
                    then coalesce(new_due, shardclock.later(t.paused_due_date, shift, t.zone))
            end,
            changed_at = case when t.paused_due_date is null then clock_timestamp() else t.changed_at end,
            missed_once = null,
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from moved m
    join old on old.timer_key = (m.timer).timer_key
    cross join lateral shardclock.log_of(
        m.timer,
        'RESCHEDULED',
        old.due_date,
        jsonb_build_object('due_date', coalesce((m.timer).paused_due_date, (m.timer).due_date), 'operation', operation)
    );
end;
