-- Fires leased timers: deletes their rows, and writes their log records, deliveries and next occurrences.
--
-- The fence: a timer fires only if the holder still has the lease. The row must also have the version that the holder
-- has read.
--
-- in:    :holder bigint: the shard
--        :timer_keys bigint[]: each once; then one array for each field of these timers:
--        :versions xid[]: the version of the row that was leased
--        :fires boolean[]: false: the timer was missed and does not fire; only its next occurrence is written
--        :skipped bigint[]: the number of skipped occurrences. The first of them is this occurrence if the timer does
--          not fire, otherwise the next one
--        :next_occurrences bigint[], :next_due_dates timestamptz[], :next_anchors timestamptz[] and
--          :next_anchor_occurrences bigint[]: the next occurrence; nulls: there is none
--        :next_periods_us bigint[]: null: the rule has no fixed period, or has an end
--        :granted_by bigint[], :granted_targets text[] and :granted_places integer[]: the grants: a worker, a target,
--          and the number of deliveries that the worker accepts; a worker may have several grants
--        :granted_lease interval: the lease of a delivery that a worker gets in this way
--        :lag_edges interval[]: the ascending bounds of the lags' histogram
--        :now timestamptz or null (Postgres's clock)
-- out:   one row:
--        server_time timestamptz
--        server_now timestamptz: the start of the transaction
--        timer_keys bigint[]: the deleted timers; a timer is missing if it was fenced, cancelled, moved, paused, early
--          or locked
--        lags text or null: the lags of the timers that fired, as JSON
--        handed record[] or null: the deliveries that were claimed for workers: the columns of a claim, then the worker
--        deliveries bigint: the number of fired timers with a target to call
-- locks: the fired rows, until the statement ends; skips rows that other transactions have locked, so that a client's
--        open transaction delays only the timers that it has locked. If a row is locked between the read and the
--        delete, gives up after 0.1 s (55P03)
-- index: timers_pkey, two probes for each row, three if the row is locked first; holders_pkey, one for each worker
with patience as materialized (
    -- Sets the lock timeout of this statement: Postgres evaluates this expression before the statement locks a row.
    select set_config('lock_timeout', '100ms', true)
),
mine as materialized (
    -- This query takes no locks: docs/decisions/0021-no-lock-before-a-delete.md.
    select
        t.timer_key, s.version, t.needs_lock,
        s.fires, s.skipped, s.next_occurrence, s.next_due_date, s.next_anchor, s.next_anchor_occurrence,
        s.next_period_us
    from unnest(
        :timer_keys::bigint[], :versions::xid[], :fires::boolean[], :skipped::bigint[], :next_occurrences::bigint[],
        :next_due_dates::timestamptz[], :next_anchors::timestamptz[], :next_anchor_occurrences::bigint[],
        :next_periods_us::bigint[]
    ) as s (
        timer_key, version, fires, skipped, next_occurrence, next_due_date, next_anchor, next_anchor_occurrence,
        next_period_us
    )
    cross join patience
    cross join lateral (
        -- A row's xmax is the number of the last transaction that locked the row, even after the end of that
        -- transaction.
        select t.timer_key, t.xmax <> '0' as needs_lock
        from shardclock.timers t
        where t.timer_key = s.timer_key
            and t.claimed_by = :holder
            and t.xmin = s.version
            and (t.due_date <= coalesce(:now::timestamptz, now())) is true
        -- With `limit 1` the planner probes the index for each key; without it, a join could read all timers.
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
    -- The fence must be a condition of the delete. If only the query above checked it, a holder that loses its lease
    -- after this query could still fire. The fence compares the row's version
    -- (docs/decisions/0036-the-fence-is-a-row-version.md) and the holder. The version alone is not sufficient. A
    -- replica may lack the last transactions; after a failover to this replica, a new transaction may get the number of
    -- a lost transaction. The array of keys and "is true" force the planner to probe the index for each key
    -- (docs/decisions/0005-queue-plans.md).
    delete from shardclock.timers t
    where t.timer_key = any (
            array(
                select mine.timer_key from mine where not mine.needs_lock
                union all
                select locked.timer_key from locked
            )
        )
        and t.claimed_by = :holder
        -- Compare the values as text, because Postgres can't compare rows that contain an xid.
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
        f.*, mine.next_period_us,
        -- include: included/next_occurrence.sql
    from fired f
    join mine on mine.timer_key = f.timer_key
    where f.schedule is not null
),
logged as (
    -- include: included/record_firing.sql
    -- include: included/record_skipped.sql
),
-- include: included/recur.sql
-- include: included/deliver_and_measure.sql
select
    clock_timestamp() as server_time,
    now() as server_now,
    array(select f.timer_key from fired f) as timer_keys,
    -- include: included/lags_as_json.sql
    -- include: included/handed.sql
    done.deliveries
from done
