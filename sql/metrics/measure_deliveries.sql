-- Measures the due deliveries that no worker has claimed, for each handler, and for all endpoints together.
--
-- in:    :webhooks boolean: true: endpoints, and all other targets except handlers, jobs and processes; false:
--          handlers. Handlers and endpoints are measured separately, so that many endpoints can't hide the handlers;
--          other statements measure jobs and processes
--        :named integer: the limit of handlers with a separate row; handlers that an app declares come first; the row
--          `other` has all other targets
--        :most bigint: the count of a row stops at this number
--        :now timestamptz or null
-- out:   target_name text, waiting bigint
--        oldest_s double precision: the time since the oldest waiting delivery became due; 0: no delivery waits
-- locks: nothing
-- index: deliveries_by_lane: one probe for each target, at most 500, and one for each lane (one target's deliveries of
--        one tenant), at most 5,000; then for each name the due lanes, each from its soonest row, until :most rows. The
--        scan also reads claimed rows without counting them; these are few, because a worker claims only deliveries
--        that it can start
with recursive handler as materialized (
    select h.target, row_number() over (order by h.withdrawn_at is not null, h.target collate "C") as number
    from shardclock.handlers h
    order by number -- in the workers' order
    limit 500
),
named as materialized (
    select h.target from handler h where not :webhooks::boolean and h.number <= :named::integer
),
walked (target, tenant_id, soonest, number) as (
    (
        select d.target, d.tenant_id, d.next_attempt_at, 1
        from shardclock.deliveries d
        where :webhooks and d.target not like 'job:%' and d.target not like 'process:%'
        order by d.target, d.tenant_id, d.next_attempt_at
        limit 1
    )
    union all
    select d.target, d.tenant_id, d.next_attempt_at, w.number + 1
    from walked w
    cross join lateral (
        select d.target, d.tenant_id, d.next_attempt_at
        from shardclock.deliveries d
        where d.target > w.target and d.target not like 'job:%' and d.target not like 'process:%'
        order by d.target, d.tenant_id, d.next_attempt_at
        limit 1
    ) d
    where w.number < 500
),
found (target, tenant_id, soonest) as (
    select w.target, w.tenant_id, w.soonest
    from walked w
    where not exists (select from shardclock.handlers h where h.target = w.target)
    union all
    select h.target, d.tenant_id, d.next_attempt_at
    from handler h
    cross join lateral (
        select d.tenant_id, d.next_attempt_at
        from shardclock.deliveries d
        where d.target = h.target
        order by d.target, d.tenant_id, d.next_attempt_at
        limit 1
    ) d
    where not :webhooks
),
lane (target, tenant_id, soonest) as (
    select f.target, f.tenant_id, f.soonest from found f
    union all
    -- Each step reads the next tenant of every target, so that the limit below treats all targets equally.
    select d.target, d.tenant_id, d.next_attempt_at
    from lane l
    cross join lateral (
        select d.target, d.tenant_id, d.next_attempt_at
        from shardclock.deliveries d
        where d.target = l.target and d.tenant_id > l.tenant_id
        order by d.target, d.tenant_id, d.next_attempt_at
        limit 1
    ) d
),
due_lane as materialized (
    select coalesce(n.target, 'other') as target_name, l.target, l.tenant_id
    from (select lane.target, lane.tenant_id, lane.soonest from lane limit 5000) l
    left join named n on n.target = l.target
    where l.soonest <= coalesce(:now::timestamptz, now())
),
label as materialized (
    -- Use `union`, because a handler may have the name `other`.
    select n.target as target_name from named n union select 'other'
)
select
    label.target_name,
    waiting.deliveries as waiting,
    greatest(extract(epoch from coalesce(:now, now()) - oldest.due_at), 0)::double precision as oldest_s
from label
cross join lateral (
    select count(*) as deliveries
    from (
        select
        from due_lane l
        cross join lateral (
            select
            from shardclock.deliveries d
            where d.target = l.target
                and d.tenant_id = l.tenant_id
                and d.next_attempt_at <= coalesce(:now, now())
                and (d.claimed_until is null or d.claimed_until <= coalesce(:now, now()))
            -- Read the lanes one after the other, in the order of the index, instead of the whole table.
            order by d.next_attempt_at
            offset 0
        ) d
        where l.target_name = label.target_name
        limit :most::bigint
    ) counted
) waiting
cross join lateral (
    select min(d.next_attempt_at) as due_at
    from due_lane l
    cross join lateral (
        select d.next_attempt_at
        from shardclock.deliveries d
        where d.target = l.target
            and d.tenant_id = l.tenant_id
            and d.next_attempt_at <= coalesce(:now, now())
            and (d.claimed_until is null or d.claimed_until <= coalesce(:now, now()))
        order by d.next_attempt_at
        limit 1
    ) d
    where l.target_name = label.target_name
) oldest
order by label.target_name
