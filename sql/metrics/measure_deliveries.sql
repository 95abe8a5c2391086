-- Measures the deliveries that wait, of each handler or of all endpoints: due, and no worker has them in hand.
--
-- in:    :webhooks boolean: endpoints, and whatever else is no handler, job or process; false: handlers. They are measured
--        apart, so that handlers are seen however many endpoints tenants name; jobs and processes have measures of their
--        own,
--        :named integer: how many handlers have a row of their own, those that an app still has first; all other targets
--        are one row, `other`,
--        :most bigint: each row's count stops here, :now timestamptz or null
-- out:   target_name text, waiting bigint, oldest_s double precision (how long ago the oldest of them became due; 0 if
--        there is none)
-- locks: nothing
-- index: deliveries_by_lane: one probe for each target and each lane (one target's deliveries of one tenant), 500 and
--        5,000 of them at most; then of each name the lanes that are due, each from its soonest row, until :most rows.
--        A row in hand is read and not counted: a worker has only as many in hand as it can call
with recursive handler as materialized (
    select h.target, row_number() over (order by h.withdrawn_at is not null, h.target collate "C") as number
    from shardclock.handlers h
    order by number -- as workers order them
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
    -- The next tenant of each target at a time: where the limit below ends it, each target has had its share.
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
told as materialized (
    -- A handler may be named `other`, too.
    select n.target as target_name from named n union select 'other'
)
select
    told.target_name,
    waiting.deliveries as waiting,
    greatest(extract(epoch from coalesce(:now, now()) - oldest.due_at), 0)::double precision as oldest_s
from told
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
            -- In the index's order, and lane by lane: without it this could read the whole table.
            order by d.next_attempt_at
            offset 0
        ) d
        where l.target_name = told.target_name
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
    where l.target_name = told.target_name
) oldest
order by told.target_name
