-- Fires leased timers: takes each out of `timers`, appends its record, writes its schedule's next occurrence.
--
-- in:    $1 holder bigint, $2 timer_keys bigint[] (each once), $3 occurrences bigint[],
--        $4 fires boolean[] (false: it was missed, and only what follows it is written),
--        $5 skipped bigint[] (occurrences that will not fire: from this one on if it doesn't fire, else after it),
--        $6 next_occurrences bigint[], $7 next_due_dates timestamptz[], $8 next_anchors timestamptz[] and
--        $9 next_anchor_occurrences bigint[] (nulls: no next one), $10 lag_edges interval[], ascending,
--        $11 now timestamptz or null
-- out:   one row: server_time timestamptz, server_now timestamptz, timer_keys bigint[] of those that have gone (fewer
--        than sent were fenced, cancelled, moved, paused, early, or locked by somebody), lags text (JSON: of those that
--        fired, an array of [target, timer_type, how many edges its lag is within, timers, their lags' sum in seconds])
--        or null
-- locks: the fired rows, for the statement; goes around what others have locked, so that no open transaction of a
--        client delays anybody's timers but its own, and gives up after 0.1 s (55P03) if one was locked meanwhile
-- index: timers_pkey, two probes a row, three where it is locked first
with patience as materialized (
    -- For this statement, which locks rows when it has read this.
    select set_config('lock_timeout', '100ms', true)
),
mine as materialized (
    -- A look without locks: docs/decisions/0021-no-lock-before-a-delete.md.
    select
        t.timer_key, s.occurrence, t.needs_lock,
        s.fires, s.skipped, s.next_occurrence, s.next_due_date, s.next_anchor, s.next_anchor_occurrence
    from unnest(
        $2::bigint[], $3::bigint[], $4::boolean[], $5::bigint[], $6::bigint[], $7::timestamptz[], $8::timestamptz[], $9::bigint[]
    ) as s (
        timer_key, occurrence, fires, skipped, next_occurrence, next_due_date, next_anchor, next_anchor_occurrence
    )
    cross join patience
    cross join lateral (
        -- Whoever locks a row, or has locked it, leaves his number in its xmax. What follows in a schedule was reckoned
        -- from what the row was when it was leased: it must not change any more.
        select t.timer_key, t.xmax <> '0' or t.schedule is not null as needs_lock
        from shardclock.timers t
        where t.timer_key = s.timer_key
            and t.claimed_by = $1
            and t.occurrence = s.occurrence
            and (t.due_date <= coalesce($11::timestamptz, now())) is true
        -- There is no second. Without it this would be a join, and might be begun with all that is pending.
        limit 1
    ) t
),
locked as materialized (
    select t.timer_key
    from mine
    cross join lateral (
        select t.timer_key
        from shardclock.timers t
        where t.timer_key = mine.timer_key and t.claimed_by = $1 and t.occurrence = mine.occurrence
        for update of t skip locked
    ) t
    where mine.needs_lock
),
fired as (
    -- The fence stands on the row that is deleted; a check in the look above would let a zombie through. By an
    -- array, not a join, and due or not "is true", which no index knows: whatever the planner believes of the table's
    -- size, it can only probe the key (docs/decisions/0005-queue-plans.md).
    delete from shardclock.timers t
    where t.timer_key = any (
            array(select mine.timer_key from mine where not mine.needs_lock union all select locked.timer_key from locked)
        )
        and t.claimed_by = $1
        and (t.due_date <= coalesce($11::timestamptz, now())) is true
        -- What was looked at without a lock was plain, and may have become a schedule since.
        and (t.schedule is null or t.timer_key <> all (array(select mine.timer_key from mine where not mine.needs_lock)))
    returning t.*
),
recurring as (
    select
        f.*, mine.fires, mine.skipped, mine.next_occurrence, mine.next_due_date, mine.next_anchor,
        mine.next_anchor_occurrence
    from fired f
    join mine on mine.timer_key = f.timer_key
    where f.schedule is not null
),
logged as (
    insert into shardclock.command_log (
        timer_key, process_instance_key, element_instance_key, due_date, created_at, occurrence, holder,
        intent, tenant_id, timer_type, target, target_element_id, name, schedule, payload, detail
    )
    select
        f.timer_key, f.process_instance_key, f.element_instance_key, f.due_date, f.created_at, f.occurrence, $1,
        'TRIGGERED', f.tenant_id, f.timer_type, f.target, f.target_element_id, f.name, f.schedule, f.payload, null
    from (select * from fired order by due_date) f
    where f.timer_key <> all (array(select mine.timer_key from mine where not mine.fires))
    union all
    select
        r.timer_key, r.process_instance_key, r.element_instance_key, r.due_date, r.created_at,
        r.occurrence + case when r.fires then 1 else 0 end, $1,
        'SKIPPED', r.tenant_id, r.timer_type, r.target, r.target_element_id, r.name, r.schedule, r.payload,
        jsonb_build_object('count', r.skipped, 'policy', coalesce(r.missed, 'fire_once'))
    from recurring r
    where r.skipped > 0
),
recurred as (
    insert into shardclock.timers (
        process_instance_key, element_instance_key, due_date, anchor, anchor_occurrence, occurrence, repetitions,
        tenant_id, timer_type, target, zone, missed, target_element_id, name, schedule, payload
    )
    select
        r.process_instance_key, r.element_instance_key, r.next_due_date, r.next_anchor, r.next_anchor_occurrence,
        r.next_occurrence, r.repetitions,
        r.tenant_id, r.timer_type, r.target, r.zone, r.missed, r.target_element_id, r.name, r.schedule, r.payload
    from recurring r
    where r.next_due_date is not null
),
done as materialized (
    select
        coalesce(array_agg(f.timer_key), '{}') as timer_keys,
        clock_timestamp() as at,
        array(select clock_timestamp() - e.edge from unnest($10::interval[]) as e (edge) order by e.edge desc) as edges
    from fired f
),
lags as materialized (
    select
        f.target, f.timer_type,
        width_bucket(f.due_date, done.edges) as within,
        count(*) as timers,
        sum(date_part('epoch', done.at - f.due_date)) as sum_s
    from fired f
    cross join done
    where f.timer_key <> all (array(select mine.timer_key from mine where not mine.fires))
    group by 1, 2, 3
)
select
    clock_timestamp() as server_time,
    now() as server_now,
    done.timer_keys,
    (select jsonb_agg(jsonb_build_array(l.target, l.timer_type, l.within, l.timers, l.sum_s))::text from lags l) as lags
from done
