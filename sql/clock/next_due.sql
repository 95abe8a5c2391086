-- Finds what is due next: a timer, or the next attempt of a delivery. A clock that tests move goes there at once, if that
-- is no later than a given moment. For the small database of a test: it reads all.
--
-- in:    :until timestamptz or null: the clock goes no further; null: it stands still
-- out:   due_at timestamptz, timer_key bigint, name text or null, target text, claims integer (0: a timer that has not
--        fired; else how often its delivery was claimed, plus one), slot integer or null (the slot of all timers that are
--        due then; null: they have several), moved boolean (the clock has gone there); no row: nothing is pending, or all
--        is on hold
-- locks: nothing
-- index: none
select
    first.due_at, first.timer_key, first.name, first.target, first.claims, first.slot,
    -- As in shardclock_clock.move_to. A clock that is Postgres's own has no such sequence, and is not moved.
    case
        when first.due_at > now() and first.due_at <= :until::timestamptz then
            setval(
                to_regclass('shardclock_clock.moment'),
                (extract(epoch from first.due_at - timestamptz '2000-01-01 00:00:00+00') * 1000000)::bigint
            )
    end is not null as moved
from (
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
            -- A delivery that a worker holds is free when its lease has run out; a job that rests begins no run before.
            select
                greatest(d.next_attempt_at, d.claimed_until, j.not_before), d.timer_key, d.name, d.target, d.claims + 1,
                null::integer
            from shardclock.deliveries d
            left join shardclock.jobs j on d.target = 'job:' || j.name
            -- A service task that neither a handler nor an endpoint does waits until a program completes it.
            where (
                d.timer_type <> 'SERVICE_TASK'
                or d.target like 'webhook:%'
                or exists (select from shardclock.handlers h where h.target = d.target and h.withdrawn_at is null)
            )
            -- A signal waits behind one of its instance that was put off, as in read_due_signals.sql.
            and not (
                d.target = 'process:instance'
                and d.payload ->> 'kind' is distinct from 'cancel'
                and exists (
                    select
                    from shardclock.deliveries e
                    where e.target = 'process:instance'
                        and e.failed_attempts > 0
                        and coalesce(e.process_instance_key, e.timer_key) = coalesce(d.process_instance_key, d.timer_key)
                        and e.timer_key <> d.timer_key
                        and (d.failed_attempts = 0 or e.timer_key < d.timer_key)
                )
            )
            -- A start in a queue waits behind those before it, as in begin_runs.sql.
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
) first
