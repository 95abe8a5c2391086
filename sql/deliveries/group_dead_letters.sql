-- Groups the newest dead letters by target and the first line of the reason (reason_line.sql), within each tenant or
-- across tenants.
--
-- in:    :target text or null, :tenant_id text or null
--        :rows_max integer: the limit of dead letters to read
--        :groups_max integer
--        :across_tenants boolean: a group has the dead letters of all tenants
-- out:   target text
--        tenant_id text: of the last death
--        reason_line text, dead_letters bigint, since timestamptz and last_at timestamptz: of the first and the last
--          death
--        tenants bigint: the number of tenants in the group
--        counted bigint: the number of dead letters that were read; the same in each row
--        the largest group first
-- locks: nothing
-- index: dead_letters_by_target, or dead_letters_in_order, backwards, until :rows_max rows match; for a tenant with
--        fewer dead letters, the whole table
with newest as materialized (
    select
        d.target, d.tenant_id, d.died_at,
        -- include: included/reason_line.sql
        as reason_line
    from shardclock.dead_letters d
    where (:target::text is null or d.target = :target)
        and (:tenant_id::text is null or d.tenant_id = :tenant_id)
    order by d.died_at desc, d.timer_key + 0 desc
    limit :rows_max::integer
)
select
    n.target, (array_agg(n.tenant_id order by n.died_at desc))[1] as tenant_id, n.reason_line, count(*) as dead_letters,
    min(n.died_at) as since, max(n.died_at) as last_at, count(distinct n.tenant_id) as tenants,
    (select count(*) from newest) as counted
from newest n
group by n.target, n.reason_line, case when not :across_tenants::boolean then n.tenant_id end
order by count(*) desc, max(n.died_at) desc
limit :groups_max::integer
