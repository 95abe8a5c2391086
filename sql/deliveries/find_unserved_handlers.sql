-- Finds handlers that have due deliveries, but are in no living worker's app.
--
-- in:    :target text or null: only this handler; :most bigint: the count of a handler stops here
-- out:   target text, waiting bigint (at least 1, at most :most), by target; at most 100 handlers
-- locks: nothing
-- index: handlers_pkey; deliveries_by_lane, up to :most rows for each handler without a worker, soonest tenant first
select h.target, d.waiting
from shardclock.handlers h
cross join lateral (
    select count(*) as waiting
    from (
        select
        from shardclock.deliveries d
        where d.target = h.target
            and d.next_attempt_at <= now()
            and (d.claimed_until is null or d.claimed_until <= now())
        limit :most::bigint
    ) counted
) d
where (:target::text is null or h.target = :target)
    and not exists (
        select from shardclock.presence p where p.role = 'worker' and p.alive and h.target = any (p.targets)
    )
    and d.waiting > 0
order by h.target
limit 100
