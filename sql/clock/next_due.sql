-- Finds the next due row: a timer, the end of a pause, or the next attempt of a delivery. If the row is due at `until`
-- or earlier, sets the tests' clock to the row's due date. If all due timers are plain timers, fires up to 5,000 of
-- them.
--
-- The statement reads all rows, because a test's database is small.
--
-- in:    :until timestamptz or null: the latest moment for the clock; null: the clock does not move
--        :fire_until timestamptz or null: if the row is due later than this, no timer fires; null: no timer fires
--        :holder bigint: the shard that fires
--        :now timestamptz or null
-- out:   due_at timestamptz, timer_key bigint, name text or null, target text
--        claims integer: for a timer 0; for a delivery one more than the number of its claims
--        slot integer or null: the slot of all timers that are due at this moment; null: they have several slots
--        fired bigint: the number of fired timers
--        no row: nothing is pending, or a hold is in force
-- locks: the fired rows, until the statement ends; skips rows that other transactions have locked
-- index: none
with first as materialized (
    select n.due_at, n.timer_key, n.name, n.target, n.claims, n.slot
    from (
        (
            select
                f.due_date as due_at, f.timer_key, f.name, f.target, 0 as claims,
                case
                    when not exists (
                        select
                        from shardclock.timers t
                        where t.due_date <= greatest(f.due_date, now()) and t.slot <> f.slot
                    )
                    then f.slot::integer
                end as slot
            from (
                select t.due_date, t.timer_key, t.name, t.target, t.slot
                from shardclock.timers t
                order by t.due_date, t.timer_key
                limit 1
            ) f
        )
        union all
        (
            select t.resume_at, t.timer_key, t.name, t.target, 0, null::integer
            from shardclock.timers t
            where t.resume_at is not null
            order by 1, 2
            limit 1
        )
        union all
        (
            -- A claimed delivery is due again when its lease ends. A job may require a pause after a run (not_before).
            select
                greatest(d.next_attempt_at, d.claimed_until, j.not_before), d.timer_key, d.name, d.target, d.claims + 1,
                null::integer
            from shardclock.deliveries d
            left join shardclock.jobs j on d.target = 'job:' || j.name
            -- A service task without a handler or endpoint waits until a program completes it.
            where (
                d.timer_type <> 'SERVICE_TASK'
                or d.target like 'webhook:%'
                or exists (select from shardclock.handlers h where h.target = d.target and h.withdrawn_at is null)
            )
            -- A start of a withdrawn job waits until an app declares the job again; a current run does not wait.
            and (j.withdrawn_at is null or j.run_timer_key = d.timer_key)
            -- A signal waits for an earlier deferred signal of its instance, as in read_due_signals.sql.
            and not (
                d.target = 'process:instance'
                and d.payload ->> 'kind' is distinct from 'cancel'
                and exists (
                    select
                    from shardclock.deliveries e
                    where e.target = 'process:instance'
                        and e.failed_attempts > 0
                        and coalesce(e.process_instance_key, e.timer_key) = coalesce(d.process_instance_key,
                        d.timer_key) and e.timer_key <> d.timer_key
                        and (d.failed_attempts = 0 or e.timer_key < d.timer_key)
                )
            )
            -- In a queue, a start waits until the earlier starts have run, as in begin_runs.sql.
            and not (
                j.overlap is not distinct from 'queue'
                and exists (
                    select
                    from shardclock.deliveries e
                    where e.target = d.target and (e.due_date, e.timer_key) < (d.due_date, d.timer_key)
                )
            )
            order by 1, 2
            limit 1
        )
    ) n
    where not exists (select from shardclock.identity i where i.held_why is not null)
    order by n.due_at, n.timer_key
    limit 1
),
-- Sets the clock as shardclock_clock.move_to does. In a database with Postgres's own clock, the statement sets no
-- clock.
reached as materialized (
    select
        f.*,
        case
            when f.due_at > now() and f.due_at <= :until::timestamptz then
                setval(
                    to_regclass('shardclock_clock.moment'),
                    (extract(epoch from f.due_at - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint
                )
        end as moment
    from first f
),
due as materialized (
    -- If a schedule is due, the shard fires it together with the plain timers of the same moment, because only Python
    -- code can compute the next occurrence.
    select t.timer_key
    from reached r
    cross join lateral (
        select t.timer_key
        from shardclock.timers t
        where t.due_date <= greatest(r.due_at, now())
        order by t.due_date
        limit 5000
        for update of t skip locked
    ) t
    where r.claims = 0
        and r.due_at <= :fire_until::timestamptz
        and not exists (
            select
            from shardclock.timers s
            where s.due_date <= greatest(r.due_at, now()) and s.schedule is not null
        )
),
firing as (
    delete from shardclock.timers t
    where t.timer_key = any (array(select due.timer_key from due))
        and (t.due_date <= coalesce(:now::timestamptz, now())) is true
    returning t.*
),
logged as (
    -- include: included/record_firing.sql
),
delivering as (
    -- include: included/deliver.sql
)
select r.due_at, r.timer_key, r.name, r.target, r.claims, r.slot, (select count(*) from firing) as fired
from reached r
