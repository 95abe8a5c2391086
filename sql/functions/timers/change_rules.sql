-- Gives schedules another rule, which begins at the moment when their rows are locked.
--
-- The pending occurrence keeps its number, and gets its due date from the new rule. A pending run on request does not
-- change: the new rule begins after it. If the new rule began at the start of the transaction, occurrences that fired
--         between the start and the lock would fire again.
--
-- in:    timer_keys bigint[], schedule text, zone text, missed text
-- out:   setof bigint
-- locks: the timers
-- index: timers_pkey, one probe for each key
-- needs: log_of
create or replace function shardclock.change_rules(timer_keys bigint[], schedule text, zone text, missed text)
returns setof bigint
language sql
set enable_seqscan = off
begin atomic
    with old as materialized (
        select t.timer_key, coalesce(t.paused_due_date, t.due_date) as due_date
        from shardclock.timers t
        where t.timer_key = any (timer_keys)
        order by t.timer_key
        for update
    ),
    clock as materialized (
        -- Read the clock only after all rows are locked.
        select clock_timestamp() as at from (select count(*) from old) locked
    ),
    changed as (
        update shardclock.timers t
        set schedule = change_rules.schedule,
            zone = coalesce(change_rules.zone, t.zone, 'UTC'),
            missed = coalesce(change_rules.missed, t.missed, 'fire_once'),
            name = coalesce(t.name, 'schedule-' || t.timer_key),
            -- If the clock was set back, the next due date must not be the due date of an occurrence that has already
            -- fired.
            anchor = greatest((select c.at from clock c), case when t.occurrence > 1 then t.created_at end),
            missed_once = null,
            anchor_occurrence = null,
            period_us = null,
            repetitions = -1,
            due_date = case
                when t.paused_due_date is null and t.kept_due_date is null then (select c.at from clock c)
                else t.due_date
            end,
            paused_due_date = case
                when t.paused_due_date is not null and t.kept_due_date is null then (select c.at from clock c)
                else t.paused_due_date
            end,
            changed_at = case when t.paused_due_date is null then (select c.at from clock c) else t.changed_at end,
            claimed_by = null,
            claimed_until = null
        where t.timer_key = any (array(select old.timer_key from old))
        returning t as timer
    )
    select old.timer_key
    from changed c
    join old on old.timer_key = (c.timer).timer_key
    cross join lateral shardclock.log_of(
        c.timer,
        'RESCHEDULED',
        old.due_date,
        jsonb_build_object('schedule', (c.timer).schedule, 'zone', (c.timer).zone, 'missed', (c.timer).missed)
    );
end;
