-- Finds the keys of the dead letters that a bulk change selects, the oldest first, one page at a time.
--
-- in:    :timer_key bigint or null, :target text or null, :tenant_id text or null, :died_before timestamptz or null
--        :reason_line text or null: the first line of the reason
--        :after_at timestamptz and :after_key bigint: the last row of the previous page, nulls for the first page
--        :limit bigint
-- out:   timer_key bigint, target text, tenant_id text, died_at timestamptz
-- locks: nothing
-- index: dead_letters_pkey, dead_letters_by_target, or dead_letters_in_order, up to :limit matching rows. Postgres
--        plans each call anew (`EACH_TIME`), because a generic plan would read and sort all matching rows
select d.timer_key, d.target, d.tenant_id, d.died_at
from shardclock.dead_letters d
-- include: included/selected_letters.sql
    and (:timer_key::bigint is null or d.timer_key = :timer_key)
    and (d.died_at, d.timer_key + 0) > (coalesce(:after_at::timestamptz, '-infinity'), coalesce(:after_key::bigint, 0))
order by d.died_at, d.timer_key + 0
limit :limit
