-- Writes the first due dates of schedules without a due date, and ends the leases of these schedules.
--
-- in:    :holder bigint
--        :timer_keys bigint[]: each once
--        :versions xid[]: of the rows that were claimed
--        then one array for each column:
--        :zones text[], :due_dates timestamptz[], :anchors timestamptz[], :anchor_occurrences bigint[], :repetitions
--          integer[]
-- out:   a row for each planned schedule: timer_key bigint; a schedule that was cancelled, changed, paused or locked
--        since the claim has no row
-- locks: the rows; skips rows that other transactions have locked, so that a client's transaction delays only the
--        timers that it has locked
-- index: timers_pkey, two probes for each row
with unlocked as materialized (
    select t.timer_key from shardclock.timers t where t.timer_key = any (:timer_keys) and t.claimed_by = :holder
    for update of t skip locked
)
update shardclock.timers t
-- The rule's text does not change, because a client's repeated call is recognized by this text
-- (docs/decisions/0033-on-conflict.md).
set zone = s.zone,
    -- If a client has requested a run before the schedule had a due date, this run is the first firing, as after
    -- run_timers.
    due_date = case when t.kept_due_date is null then s.due_date else t.due_date end,
    kept_due_date = case when t.kept_due_date is not null then s.due_date end,
    anchor = s.anchor,
    anchor_occurrence = s.anchor_occurrence + case when t.kept_due_date is null then 0 else 1 end,
    repetitions = s.repetitions
        + case when t.kept_due_date is not null and s.repetitions between 1 and 2147483646 then 1 else 0 end,
    claimed_by = null,
    claimed_until = null
from unnest(
    :timer_keys::bigint[], :versions::xid[], :zones::text[], :due_dates::timestamptz[], :anchors::timestamptz[],
    :anchor_occurrences::bigint[], :repetitions::integer[]
) as s (timer_key, version, zone, due_date, anchor, anchor_occurrence, repetitions)
where t.timer_key = any (array(select unlocked.timer_key from unlocked))
    and t.timer_key = s.timer_key
    -- The fence, as in fire_due.sql: the row must be unchanged since its claim.
    and t.claimed_by = :holder
    and t.xmin = s.version
returning t.timer_key
