-- Finds open deliveries, one page at a time.
--
-- in:    filters, null for none:
--        :target text, :tenant_id text
--        :failing boolean: only deliveries with a failed attempt
--        :delayed boolean: only deliveries with a next attempt that is not due yet
--        :reason_line text: only deliveries with this first line of the last failure's reason (reason_line.sql)
--        the last row of the previous page, nulls for the first page:
--        :after_target text, :after_tenant text, :after_at timestamptz, :after_key bigint
--        :limit bigint: the largest number of rows
-- out:   timer_key bigint, target text, tenant_id text, name text
--        state text: WAITING or IN_HAND
--        failed_attempts integer, next_attempt_at timestamptz
--        if IN_HAND:
--        holder bigint or null: the claiming worker; null: a program has claimed this service task
--        worker text or null: that program's name
--        claimed_until timestamptz or null
--        last_error text or null: the reason of the last failed attempt, its first 1,000 characters
--        the rows are in the order of target, tenant and due time
-- locks: nothing
-- index: deliveries_by_lane or deliveries_failing, from the start of the page; with a tenant and no target, the whole
--        index
select
    -- include: included/open_delivery.sql
    left(d.failures -> -1 ->> 'reason', 1000) as last_error
from (select f.*, coalesce(f.failures -> -1 ->> 'reason', '') as reason from shardclock.deliveries f) d
where (:target::text is null or d.target = :target)
    and (:tenant_id::text is null or d.tenant_id = :tenant_id)
    and (not :failing::boolean or d.failed_attempts > 0)
    and (not :delayed::boolean or d.next_attempt_at > now())
    and
    -- include: included/has_reason_line.sql
    and (
        :after_key::bigint is null
        or (d.target, d.tenant_id, d.next_attempt_at, d.timer_key + 0)
            > (:after_target::text, :after_tenant::text, :after_at::timestamptz, :after_key)
    )
order by d.target, d.tenant_id, d.next_attempt_at, d.timer_key + 0
limit :limit
