-- Groups a tenant's failing deliveries by target and the first line of the last failure's reason (reason_line.sql).
--
-- in:    :target text or null, :tenant_id text
--        :rows_max integer: the limit of deliveries to read
--        :groups_max integer
-- out:   target text, reason_line text, deliveries bigint
--        since timestamptz: the firing or the redrive of the oldest
--        next_at timestamptz: the first next attempt
--        counted bigint: the number of deliveries that were read; the same in each row
--        the rows are in the order of size, the largest group first
-- locks: nothing
-- index: deliveries_failing, until :rows_max rows match; with a tenant and no target, the whole index
with failing as materialized (
    select
        d.target, d.since, d.next_attempt_at,
        -- include: included/reason_line.sql
        as reason_line
    from (
        select
            f.target, coalesce(f.redriven_at, f.fired_at) as since, f.next_attempt_at,
            coalesce(f.failures -> -1 ->> 'reason', '') as reason
        from shardclock.deliveries f
        where (:target::text is null or f.target = :target)
            and f.tenant_id = :tenant_id::text
            and f.failed_attempts > 0
        order by f.target, f.tenant_id, f.next_attempt_at, f.timer_key + 0
        limit :rows_max::integer
    ) d
)
select
    n.target, n.reason_line, count(*) as deliveries, min(n.since) as since, min(n.next_attempt_at) as next_at,
    (select count(*) from failing) as counted
from failing n
group by n.target, n.reason_line
order by count(*) desc, min(n.since)
limit :groups_max::integer
