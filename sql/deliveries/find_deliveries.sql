-- Finds deliveries that are on their way, one page at a time.
--
-- in:    filters, null for none: :target text, :tenant_id text; :failing boolean: only those of which an attempt has
--        failed, :delayed boolean: only those whose next attempt is not due yet;
--        behind which row the page begins, null: at the first one: :after_target text, :after_tenant text,
--        :after_at timestamptz, :after_key bigint; :limit bigint
-- out:   timer_key bigint, target text, tenant_id text, name text, state text (WAITING or IN_HAND),
--        failed_attempts integer, next_attempt_at timestamptz; of one that is IN_HAND: holder bigint or null (the worker
--        that has it; null: a program has this service task), worker text or null (what that program calls itself),
--        claimed_until timestamptz or null; last_error text or null (why the last attempt failed, its first 1,000 characters); by target and tenant, what is
--        due first coming first
-- locks: nothing
-- index: deliveries_by_lane or deliveries_failing, from where the page begins; with a tenant and no target, all of it
select
    d.timer_key, d.target, d.tenant_id, d.name,
    case when d.claimed_until > now() then 'IN_HAND' else 'WAITING' end as state,
    d.failed_attempts, d.next_attempt_at,
    case when d.claimed_until > now() and d.claimed_by <> 0 then d.claimed_by end as holder,
    case when d.claimed_until > now() and d.claimed_by = 0 then d.worker end as worker,
    case when d.claimed_until > now() then d.claimed_until end as claimed_until,
    left(d.failures -> -1 ->> 'reason', 1000) as last_error
from shardclock.deliveries d
where (:target::text is null or d.target = :target)
    and (:tenant_id::text is null or d.tenant_id = :tenant_id)
    and (not :failing::boolean or d.failed_attempts > 0)
    and (not :delayed::boolean or d.next_attempt_at > now())
    and (
        :after_key::bigint is null
        or (d.target, d.tenant_id, d.next_attempt_at, d.timer_key + 0)
            > (:after_target::text, :after_tenant::text, :after_at::timestamptz, :after_key)
    )
order by d.target, d.tenant_id, d.next_attempt_at, d.timer_key + 0
limit :limit
