-- Computes the next occurrences of the schedules in `fired`. The schedules have fixed periods of whole microseconds;
-- the results are the same as from timers.schedule.following.
select
    f.*, f.period_us as next_period_us,
    -- include: included/next_occurrence.sql
from fired f
cross join lateral (
    select
        l.fires,
        l.last_number - f.occurrence + case when l.fires then 0 else 1 end as skipped,
        l.last_number + 1 as next_occurrence,
        case
            -- A schedule ends with the year 9999 or with its last repetition. Skipped occurrences don't count as
            -- repetitions.
            when l.last_number + 1 - f.anchor_occurrence
                    <= (extract(epoch from '9999-12-31 23:59:59.999997+00' - f.anchor) * 1000000)::bigint / f.period_us
                and (
                    f.repetitions = -1
                    or l.last_number < least(
                        f.repetitions + l.last_number - f.occurrence + case when l.fires then 0 else 1 end, 2147483647
                    )
                )
            -- Multiply hours and microseconds separately: Postgres multiplies intervals as floating-point numbers,
            -- which represent both products exactly.
            then f.anchor
                + (l.last_number + 1 - f.anchor_occurrence) * f.period_us / 3600000000 * interval '1 hour'
                + (l.last_number + 1 - f.anchor_occurrence) * f.period_us % 3600000000 * interval '1 microsecond'
        end as next_due_date,
        f.anchor as next_anchor,
        f.anchor_occurrence as next_anchor_occurrence
    from (
        select
            p.fires,
            -- The number of the last due occurrence; with the rule `skip`, the number of the last occurrence that is
            -- too late to fire.
            case
                when f.missed = 'fire_all' or (p.fires and f.repetitions <> -1 and f.occurrence >= f.repetitions)
                then f.occurrence
                else greatest(
                    f.occurrence,
                    f.anchor_occurrence + (
                        extract(
                            epoch from coalesce(:now::timestamptz, now()) - f.anchor
                                - case when p.fires then interval '0' else interval '60.000001 s' end
                        ) * 1000000
                    )::bigint / f.period_us
                )
            end as last_number
        from (
            select (
                f.missed = 'skip' and coalesce(:now, now()) - f.due_date > interval '60 s'
            ) is not true as fires
        ) p
        -- `offset 0` makes Postgres compute the value once for each row instead of once for each use.
        offset 0
    ) l
) mine
where f.schedule is not null
