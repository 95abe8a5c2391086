-- Fires or leases the rows of `due`.
fired as (
    -- An array, not a join, and "is true" behind the due date, so that no index fits it: whatever the planner believes
    -- about the table's size, it can only probe the key (docs/decisions/0005-queue-plans.md). All conditions of the
    -- reading stand here again: if a row has changed since then, only these see its newest version.
    delete from shardclock.timers t
    where :fire_overdue::boolean
        and t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce(:now::timestamptz, now())) is true
        and shardclock.is_free(
            t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
            array(select freed.holder from freed)
        )
        -- A lease that was taken after the reading stands: its holder was perhaps suspended then, and works again.
        and (
            t.claimed_until > coalesce(:now::timestamptz, now()) + :lease
            and t.claimed_until <= coalesce(:now::timestamptz, now()) + 2 * :lease
        ) is not true
        and t.schedule is null
    returning t.*
),
firing as not materialized (
    select f.* from fired f
),
logged as (
    -- include: record_firing.sql
),
claimed as (
    update shardclock.timers t
    set claimed_by = :holder, claimed_until = coalesce(:now::timestamptz, clock_timestamp()) + :lease
    where t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce(:now::timestamptz, now()) + :horizon) is true
        and shardclock.is_free(
            t.claimed_by, t.claimed_until, coalesce(:now::timestamptz, now()), :lease,
            array(select freed.holder from freed)
        )
        -- A lease that was taken after the reading stands: its holder was perhaps suspended then, and works again.
        and (
            t.claimed_until > coalesce(:now::timestamptz, now()) + :lease
            and t.claimed_until <= coalesce(:now::timestamptz, now()) + 2 * :lease
        ) is not true
        and not (
            :fire_overdue
            and t.due_date <= coalesce(:now::timestamptz, now())
            and t.schedule is null
        )
    returning
        t.timer_key, t.due_date, t.schedule, coalesce(t.zone, 'UTC') as zone, coalesce(t.missed, 'fire_once') as missed,
        t.anchor, t.anchor_occurrence, t.occurrence, t.repetitions,
        t.target like 'job:%' as starts_job,
        case when t.schedule is not null then t.tenant_id end as tenant_id, t.xmin as version
),
-- include: deliver_and_measure.sql
