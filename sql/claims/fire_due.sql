-- Fires leased timers: deletes each from `timers`, appends its record, writes its delivery and the next occurrence.
--
-- in:    :holder bigint, :timer_keys bigint[] (each once), then one array for each fact about these timers:
--        :versions xid[] (the row version that was claimed),
--        :fires boolean[] (false: it was missed and does not fire; only its next occurrence is written),
--        :skipped bigint[] (how many occurrences will not fire: counted from this one if it doesn't fire, else from the
--        next), :next_occurrences bigint[], :next_due_dates timestamptz[], :next_anchors timestamptz[] and
--        :next_anchor_occurrences bigint[] (nulls: there is no next occurrence);
--        :lag_edges interval[], ascending, :now timestamptz or null
-- out:   one row: server_time timestamptz, server_now timestamptz (the start of the transaction), timer_keys bigint[]
--        that were deleted (a key is missing if its timer was fenced, cancelled, moved, paused, early, or locked by
--        somebody), lags text or null (of the timers that fired, as JSON), deliveries bigint (how many of these have a
--        target to call)
-- locks: the fired rows, for the statement; leaves out rows that others have locked, so that a client's open
--        transaction delays only the timers that it has locked; gives up after 0.1 s (55P03) if a row was locked
--        between the reading and the delete
-- index: timers_pkey, two probes for each row, three if it is locked first
with patience as materialized (
    -- Bounds the lock waits of this statement alone: Postgres evaluates this before it locks any row.
    select set_config('lock_timeout', '100ms', true)
),
mine as materialized (
    -- This reads without locks: docs/decisions/0021-no-lock-before-a-delete.md.
    select
        t.timer_key, s.version, t.needs_lock,
        s.fires, s.skipped, s.next_occurrence, s.next_due_date, s.next_anchor, s.next_anchor_occurrence
    from unnest(
        :timer_keys::bigint[], :versions::xid[], :fires::boolean[], :skipped::bigint[], :next_occurrences::bigint[],
        :next_due_dates::timestamptz[], :next_anchors::timestamptz[], :next_anchor_occurrences::bigint[]
    ) as s (
        timer_key, version, fires, skipped, next_occurrence, next_due_date, next_anchor, next_anchor_occurrence
    )
    cross join patience
    cross join lateral (
        -- A transaction that locks a row leaves its number in the row's xmax, and the number stays after its end.
        select t.timer_key, t.xmax <> '0' as needs_lock
        from shardclock.timers t
        where t.timer_key = s.timer_key
            and t.claimed_by = :holder
            and t.xmin = s.version
            and (t.due_date <= coalesce(:now::timestamptz, now())) is true
        -- A key has one row. Without the limit this would be a join, and the planner might begin it with every timer.
        limit 1
    ) t
),
locked as materialized (
    select t.timer_key
    from mine
    cross join lateral (
        select t.timer_key
        from shardclock.timers t
        where t.timer_key = mine.timer_key and t.claimed_by = :holder and t.xmin = mine.version
        for update of t skip locked
    ) t
    where mine.needs_lock
),
fired as (
    -- The fence must be a condition of the delete itself: a check in the reading above would let a zombie pass. It
    -- is the row version that was claimed (docs/decisions/0036-the-fence-is-a-row-version.md), and the holder: after a
    -- failover to a replica that was behind, transactions get numbers that others had before. An array, not a join, and
    -- "is true" behind the other conditions, so that no index or join fits them: whatever the planner believes about
    -- the table's size, it can only probe the key (docs/decisions/0005-queue-plans.md).
    delete from shardclock.timers t
    where t.timer_key = any (
            array(
                select mine.timer_key from mine where not mine.needs_lock
                union all
                select locked.timer_key from locked
            )
        )
        and t.claimed_by = :holder
        -- As text: Postgres can't compare rows that contain an xid.
        and (
            (t.timer_key, t.xmin::text) in (
                select s.timer_key, s.version::text
                from unnest(:timer_keys::bigint[], :versions::xid[]) as s (timer_key, version)
            )
        ) is true
        and (t.due_date <= coalesce(:now::timestamptz, now())) is true
    returning t.*
),
firing as not materialized (
    select f.* from fired f where f.timer_key <> all (array(select mine.timer_key from mine where not mine.fires))
),
recurring as (
    select
        f.*, mine.fires,
        -- A firing that was asked for by "run now" leaves the schedule as it was: the next occurrence has the due date
        -- that was kept for it, moved or not, and deals with missed occurrences when it fires.
        case when f.kept_due_date is null then mine.skipped when mine.fires then 0 else 1 end as skipped,
        case when f.kept_due_date is null then mine.next_occurrence else f.occurrence + 1 end as next_occurrence,
        coalesce(f.kept_due_date, mine.next_due_date) as next_due_date,
        case when f.kept_due_date is null then mine.next_anchor else f.anchor end as next_anchor,
        case when f.kept_due_date is null then mine.next_anchor_occurrence else f.anchor_occurrence end
            as next_anchor_occurrence
    from fired f
    join mine on mine.timer_key = f.timer_key
    where f.schedule is not null
),
logged as (
    -- include: record_firing.sql
    union all
    select
        r.timer_key, r.process_instance_key, r.element_instance_key, r.due_date, r.created_at,
        r.occurrence + case when r.fires then 1 else 0 end, :holder,
        'SKIPPED', r.tenant_id, r.timer_type, r.target, r.target_element_id, r.name, r.schedule, r.payload,
        jsonb_build_object('count', r.skipped, 'policy', coalesce(r.missed, 'fire_once'))
    from recurring r
    where r.skipped > 0
),
recurred as (
    insert into shardclock.timers (
        process_instance_key, element_instance_key, due_date, anchor, anchor_occurrence, occurrence, repetitions,
        tenant_id, timer_type, target, zone, missed, target_element_id, name, schedule, payload, changed_at
    )
    select
        r.process_instance_key, r.element_instance_key, r.next_due_date, r.next_anchor, r.next_anchor_occurrence,
        r.next_occurrence,
        -- A skipped occurrence uses up no repetition (timers.schedule.last_number); a "run now" is counted already.
        case
            when r.repetitions = -1 then -1
            when r.kept_due_date is not null then r.repetitions
            else least(r.repetitions + r.skipped, 2147483647)
        end,
        r.tenant_id, r.timer_type, r.target, r.zone, r.missed, r.target_element_id, r.name, r.schedule, r.payload,
        -- Occurrences that were missed during a pause are late only from the moment of resuming, too.
        case when l.since > r.next_due_date then l.since end
    from recurring r
    cross join lateral (select shardclock.late_since(r.due_date, r.created_at, r.changed_at, r.occurrence)) as l (since)
    where r.next_due_date is not null
),
-- include: deliver_and_measure.sql
select
    clock_timestamp() as server_time,
    now() as server_now,
    done.timer_keys,
    -- include: lags_as_json.sql
    done.deliveries
from done
