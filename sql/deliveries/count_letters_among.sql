-- Counts the given dead letters that still exist, by target and tenant.
--
-- in:    :timer_keys bigint[]
-- out:   target text, tenant_id text, dead_letters bigint
-- locks: nothing
-- index: dead_letters_pkey, one probe for each key
select d.target, d.tenant_id, count(*) as dead_letters
from shardclock.dead_letters d
where d.timer_key = any (:timer_keys::bigint[])
group by d.target, d.tenant_id
