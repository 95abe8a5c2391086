-- Reads which of the given timers a holder has leased, and which transaction has locked each row.
--
-- in:    :holder bigint, :timer_keys bigint[]
-- out:   timer_key bigint, due_date timestamptz, schedule text, zone text, missed text
--        missed_before timestamptz or null: the moment of the resume that chose `missed`
--        anchor timestamptz, anchor_occurrence bigint, occurrence bigint, repetitions integer, starts_job boolean
--        tenant_id text or null: of a schedule
--        version xid
--        locker text: the number of the last transaction that locked the row, which may have ended; rows with the same
--          number were locked by the same transaction
-- locks: nothing
-- index: timers_pkey, one probe for each key
select
    -- include: included/leased_timer.sql
    , t.xmax::text as locker
from shardclock.timers t
where t.timer_key = any (:timer_keys) and t.claimed_by = :holder
