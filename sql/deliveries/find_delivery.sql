-- Finds the open or given-up delivery of a fired timer. The ends of other deliveries are in the log.
--
-- in:    :timer_key bigint
-- out:   one row or none:
--        timer_key bigint, target text, tenant_id text, name text
--        state text: WAITING, IN_HAND or DEAD
--        failed_attempts integer, next_attempt_at timestamptz or null
--        if IN_HAND:
--        holder bigint or null: the claiming worker; null: a program has claimed this service task
--        worker text or null: that program's name
--        claimed_until timestamptz or null
--        reason text or null: the reason if it was given up
--        failures text or null: JSON: the last failed attempts
-- locks: nothing
-- index: deliveries_pkey, dead_letters_pkey
select
    -- include: included/open_delivery.sql
    null::text as reason, d.failures::text as failures
from shardclock.deliveries d
where d.timer_key = :timer_key
union all
select
    l.timer_key, l.target, l.tenant_id, l.name, 'DEAD', l.failed_attempts, null, null, null, null, l.reason,
    l.failures::text
from shardclock.dead_letters l
where l.timer_key = :timer_key
limit 1
