-- Writes the deliveries of the timers in `firing`, counts the timers, and measures their lags. Claims deliveries for
-- workers that accept more deliveries of the target (docs/decisions/0083-a-firing-hands-its-delivery-over.md).
taker as materialized (
    -- Check the worker's row as the worker's own claim does. So an ended or silent worker gets no delivery.
    select h.holder, h.part, h.part_count
    from shardclock.holders h
    where h.holder = any (:granted_by::bigint[])
        and h.ended_at is null
        and h.suspended_at is null
        and h.part is not null
        and shardclock.hold_reason(h.identity) is null
),
granted as materialized (
    select g.target, g.places, t.holder, t.part, t.part_count
    from unnest(:granted_by, :granted_targets::text[], :granted_places::integer[]) as g (holder, target, places)
    join taker t on t.holder = g.holder
),
given as materialized (
    -- While the assignment of slots changes, two workers may have the same slot: choose one of them.
    select distinct on (n.timer_key) n.*
    from (
        select
            f.*, g.holder as worker, g.places,
            row_number() over (partition by f.target, g.holder order by f.due_date, f.timer_key) as number
        from firing f
        join granted g on g.target = f.target and f.slot % g.part_count = g.part
        where exists (select from granted)
    ) n
    where n.number <= n.places
    order by n.timer_key, n.worker
),
handed as (
    insert into shardclock.deliveries (
        timer_key, process_instance_key, element_instance_key, next_attempt_at, due_date, created_at, occurrence, slot,
        tenant_id, timer_type, target, target_element_id, name, schedule, payload, claimed_by, claimed_until, claims
    )
    select
        g.timer_key, g.process_instance_key, g.element_instance_key, coalesce(:now::timestamptz, now()), g.due_date,
        g.created_at, g.occurrence, g.slot, g.tenant_id, g.timer_type, g.target, g.target_element_id, g.name, g.schedule,
        g.payload, g.worker, coalesce(:now::timestamptz, clock_timestamp()) + :granted_lease::interval, 1
    from given g
    returning
        timer_key, process_instance_key, element_instance_key, due_date, fired_at, next_attempt_at, redriven_at,
        occurrence, claims, failed_attempts, given_back, tenant_id, timer_type, target, target_element_id, name, schedule,
        payload::text as payload, attempts_max, claimed_by
),
delivering as (
    -- include: included/deliver.sql
        and f.timer_key not in (select g.timer_key from given g)
),
done as materialized (
    -- Read the clock after the delete of all timers, just before the insert of their records.
    select
        count(*) as timers,
        count(*) filter (where f.target <> 'log') as deliveries,
        clock_timestamp() as at,
        array(
            select clock_timestamp() - e.edge from unnest(:lag_edges::interval[]) as e (edge) order by e.edge desc
        ) as edges
    from firing f
),
lags as materialized (
    -- In a select list, Postgres inlines the function; as a table expression, the call would cost 0.3 µs for each row.
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
