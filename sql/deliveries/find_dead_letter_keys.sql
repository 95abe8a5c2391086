-- Finds dead letters that are to be changed, the one that was given up last first: only what is said of many at once.
--
-- in:    :timer_key bigint or null, :target text or null, :tenant_id text or null, :died_before timestamptz or null,
--        :limit bigint
-- out:   timer_key bigint, target text, tenant_id text
-- locks: nothing
-- index: dead_letters_pkey, dead_letters_by_target, or the whole table, which somebody should keep small
select d.timer_key, d.target, d.tenant_id
from shardclock.dead_letters d
where (:timer_key::bigint is null or d.timer_key = :timer_key)
    and (:target::text is null or d.target = :target)
    and (:tenant_id::text is null or d.tenant_id = :tenant_id)
    and (:died_before::timestamptz is null or d.died_at < :died_before)
order by d.died_at desc, d.timer_key
limit :limit
