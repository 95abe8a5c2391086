-- Finds handlers with due deliveries, and jobs with fired starts, if no running worker has the handler or the job in
-- its app.
--
-- in:    :target text or null: only this handler or job
--        :most bigint: the count of a target stops at this number
-- out:   target text: a handler's, or job: and the job's name
--        waiting bigint: at least 1, at most :most
--        by target; at most 100 targets
-- locks: nothing
-- index: handlers_pkey, jobs_pkey; deliveries_by_lane, up to :most rows for each handler or job without a worker,
--        soonest tenant first
with living as materialized (
    select p.targets, p.functions from shardclock.presence p where p.role = 'worker' and p.alive
)
select u.target, u.waiting
from (
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
        and not exists (select from living l where h.target = any (l.targets))
    union all
    select 'job:' || j.name as target, d.waiting
    from shardclock.jobs j
    cross join lateral (
        select count(*) as waiting
        from (
            select
            from shardclock.deliveries d
            where d.target = 'job:' || j.name
                and d.tenant_id = 'default'
                -- Also count starts that are not due: a worker without the job's code delays a start again and again.
                and (d.claimed_until is null or d.claimed_until <= now())
            limit :most
        ) counted
    ) d
    where (:target is null or 'job:' || j.name = :target)
        -- A worker drops the starts of a disabled job; the starts of a withdrawn job wait for its app.
        and j.disabled_at is null
        and not exists (select from living l where j.function = any (l.functions))
) u
where u.waiting > 0
order by u.target
limit 100
