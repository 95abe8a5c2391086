-- Reads which of these timers a holder still leases, and which transaction locks each row.
--
-- in:    :holder bigint, :timer_keys bigint[]
-- out:   timer_key bigint, due_date timestamptz, schedule text, zone text, missed text, anchor timestamptz,
--        anchor_occurrence bigint, occurrence bigint, repetitions integer, starts_job boolean, tenant_id text or null
--        (of a schedule), version xid, locker text (the number of the last transaction that locked the row, still open
--        or not; rows with the same number were locked by the same transaction)
-- locks: nothing
-- index: timers_pkey, one probe for each key
select
    t.timer_key, t.due_date, t.schedule, coalesce(t.zone, 'UTC') as zone, coalesce(t.missed, 'fire_once') as missed,
    t.anchor, t.anchor_occurrence, t.occurrence, t.repetitions,
    t.target like 'job:%' as starts_job,
    case when t.schedule is not null then t.tenant_id end as tenant_id, t.xmin as version, t.xmax::text as locker
from shardclock.timers t
where t.timer_key = any (:timer_keys) and t.claimed_by = :holder
