-- Writes the deliveries of the timers in `firing`, counts the rows of `fired`, and measures the lags.
delivering as (
    -- A firing whose target is the log leaves only its record.
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, target_element_id, name, schedule, payload
    )
    select
        f.timer_key, f.process_instance_key, f.element_instance_key, coalesce(:now::timestamptz, now()), f.due_date,
        f.created_at, f.occurrence, f.slot, f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule,
        f.payload
    from firing f
    where f.target <> 'log'
),
done as materialized (
    -- The clock is read when all timers are deleted; their records are written right after.
    select
        count(*) as timers,
        coalesce(array_agg(f.timer_key), '{}') as timer_keys,
        count(*) filter (where f.target <> 'log') as deliveries,
        clock_timestamp() as at,
        array(
            select clock_timestamp() - e.edge from unnest(:lag_edges::interval[]) as e (edge) order by e.edge desc
        ) as edges
    from fired f
),
lags as materialized (
    -- In a select of its own the function becomes part of the expressions; as a table it would cost 0.3 µs a row.
    select
        shardclock.kind_of_target(f.target) as target, f.timer_type,
        case when l.since > f.due_date + interval '1 s' then 'late' else 'ahead' end as asked,
        width_bucket(l.since, done.edges) as within,
        count(*) as timers,
        date_part('epoch', sum(greatest(done.at - l.since, '0'))) as sum_s
    from firing f
    cross join lateral (select shardclock.late_since(f.due_date, f.created_at, f.changed_at, f.occurrence)) as l (since)
    cross join done
    where :lag_edges is not null
    group by 1, 2, 3, 4
)
