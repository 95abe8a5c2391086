-- Fires or leases the rows of `due`.
fired as (
    -- The array of keys and "is true" force the planner to probe the index for each key
    -- (docs/decisions/0005-queue-plans.md). Repeat all conditions of the query: if a row has changed, Postgres checks
    -- them again on the newest version of the row.
    delete from shardclock.timers t
    where :fire_overdue::boolean
        and t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce(:now::timestamptz, now())) is true
        -- include: included/still_free.sql
        -- A claim fires a schedule only if the row has a period. For other rules, the shard's fire loop computes the
        -- next occurrence. A row with missed_once has no period.
        and (t.schedule is null or t.period_us is not null)
    returning t.*
),
firing as not materialized (
    select f.* from fired f
    where (
        f.schedule is not null and f.missed = 'skip'
        -- The interval is timers.schedule.MISSED_AFTER.
        and coalesce(:now::timestamptz, now()) - f.due_date > interval '60 s'
    ) is not true
),
recurring as materialized (
    -- include: included/recurring_by_period.sql
),
logged as (
    -- include: included/record_firing.sql
    -- include: included/record_skipped.sql
),
claimed as (
    update shardclock.timers t
    set claimed_by = :holder, claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease
    where t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce(:now::timestamptz, now()) + :horizon) is true
        -- include: included/still_free.sql
        and not (
            :fire_overdue
            and t.due_date <= coalesce(:now::timestamptz, now())
            and (t.schedule is null or t.period_us is not null)
        )
    returning
        -- include: included/leased_timer.sql
),
-- include: included/recur.sql
-- include: included/deliver_and_measure.sql
