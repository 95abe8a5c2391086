-- Counts the dead letters that a bulk change selects, by target and tenant.
--
-- in:    :target text or null, :tenant_id text or null, :died_before timestamptz or null
--        :reason_line text or null: the first line of the reason
-- out:   timer_key bigint, target text, tenant_id text
--        died_at timestamptz: of the first death
--        dead_letters bigint
--        timer_key is the key of any of these dead letters
-- locks: nothing
-- index: dead_letters_by_target for one target; without a target, the whole table is read once
select
    min(d.timer_key) as timer_key, d.target, d.tenant_id, min(d.died_at) as died_at, count(*) as dead_letters
from shardclock.dead_letters d
-- include: included/selected_letters.sql
group by d.target, d.tenant_id
