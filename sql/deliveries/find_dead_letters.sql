-- Finds dead letters, the one that was given up last first.
--
-- in:    :timer_key bigint or null, :target text or null, :tenant_id text or null, :died_before timestamptz or null,
--        :limit bigint
-- out:   timer_key bigint, target text, tenant_id text, name text, occurrence bigint, due_date timestamptz,
--        fired_at timestamptz, died_at timestamptz, failed_attempts integer, reason text, payload text, failures text
-- locks: nothing
-- index: dead_letters_pkey, dead_letters_by_target, or the whole table, which somebody should keep small
select
    d.timer_key, d.target, d.tenant_id, d.name, d.occurrence, d.due_date, d.fired_at, d.died_at, d.failed_attempts,
    d.reason, d.payload::text as payload, d.failures::text as failures
from shardclock.dead_letters d
where (:timer_key::bigint is null or d.timer_key = :timer_key)
    and (:target::text is null or d.target = :target)
    and (:tenant_id::text is null or d.tenant_id = :tenant_id)
    and (:died_before::timestamptz is null or d.died_at < :died_before)
order by d.died_at desc, d.timer_key
limit :limit
