-- Lists the current and former targets of timers (the log, handlers, jobs and endpoints), with the number of workers
-- that have the target, and the numbers of open deliveries and dead letters.
--
-- in:    :tenant_id text or null: only targets that this tenant's timers may name, and only this tenant's deliveries
--        :limit bigint
-- out:   target text
--        kind text: log, handler, job or webhook
--        tenant_id text or null: the tenant that may name it; null: all
--        closed_at timestamptz or null: the moment since which no new timer may name it
--        closed_why text or null
--        waiting bigint and dead_letters bigint: open deliveries, and given-up deliveries, each counted up to 1,000
--        workers bigint or null: running workers with the handler or the job in their apps; null for the log and for
--          endpoints, which need no app
--        first the log, then handlers, jobs and endpoints, each sorted by name
-- locks: nothing
-- index: handlers_pkey, jobs_pkey and endpoints_pkey; deliveries_by_lane and dead_letters_by_target, up to 1,000 rows
--        for each target; beats_pkey, newest first
with living as materialized (
    select p.targets, p.functions from shardclock.presence p where p.role = 'worker' and p.alive
)
select
    t.target, t.kind, t.tenant_id, t.closed_at, t.closed_why,
    -- In the index, the deliveries of each tenant's endpoint are a separate range, even if many tenants use the same
    -- endpoint name.
    case
        when t.counted_tenant_id is null
            then (
                select count(*)
                from (select from shardclock.deliveries d where d.target = t.target limit 1000) d
            )
        else (
            select count(*)
            from (
                select
                from shardclock.deliveries d
                where d.target = t.target and d.tenant_id = t.counted_tenant_id
                limit 1000
            ) d
        )
    end as waiting,
    case
        when t.counted_tenant_id is null
            then (
                select count(*)
                from (select from shardclock.dead_letters d where d.target = t.target limit 1000) d
            )
        else (
            select count(*)
            from (
                select
                from shardclock.dead_letters d
                where d.target = t.target and d.tenant_id = t.counted_tenant_id
                limit 1000
            ) d
        )
    end as dead_letters,
    case
        when t.kind in ('handler', 'job')
            then (
                select count(*)
                from living l
                where case when t.kind = 'job' then t.function = any (l.functions) else t.target = any (l.targets) end
            )
    end as workers
from (
    select
        k.target, k.kind, k.tenant_id, k.closed_at, k.closed_why, k.place, k.function,
        coalesce(k.tenant_id, :tenant_id::text) as counted_tenant_id
    from (
        select
            'log' as target, 'log' as kind, null::text as tenant_id, null::timestamptz as closed_at,
            null::text as closed_why, 1 as place, null::text as function
        union all
        select h.target, 'handler', null, h.withdrawn_at, case when h.withdrawn_at is not null then 'withdrawn' end, 2, null
        from shardclock.handlers h
        union all
        select
            'job:' || j.name, 'job', 'default', coalesce(j.withdrawn_at, j.disabled_at),
            case when j.withdrawn_at is not null then 'withdrawn' else j.disabled_why end, 3, j.function
        from shardclock.jobs j
        union all
        select 'webhook:' || e.name, 'webhook', e.tenant_id, e.disabled_at, e.disabled_why, 4, null
        from shardclock.endpoints e
    ) k
    where k.tenant_id = coalesce(:tenant_id::text, k.tenant_id) or k.tenant_id is null
    order by k.place, k.target, k.tenant_id
    limit :limit::bigint
) t
order by t.place, t.target, t.tenant_id
