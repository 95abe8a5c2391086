-- Counts for each target the dead letters that are kept.
--
-- in:    :named integer: so many handlers are told by name, those that an app still has first; all other targets are
--        told as `other`,
--        :most bigint: of one name no more are counted
-- out:   target_name text, dead_letters bigint
-- locks: nothing
-- index: dead_letters_by_target: one probe for each handler, 500 of them at most, and one for each target, 500 of them at
--        most, which finds endpoints; then of each name at most :most rows
with recursive handler as materialized (
    select h.target, row_number() over (order by h.withdrawn_at is not null, h.target collate "C") as number
    from shardclock.handlers h
    order by number -- as workers order them
    limit 500
),
named as materialized (
    select h.target from handler h where h.number <= :named::integer
),
walked (target, number) as (
    (
        select d.target, 1
        from shardclock.dead_letters d
        order by d.target, d.tenant_id, d.died_at
        limit 1
    )
    union all
    select d.target, w.number + 1
    from walked w
    cross join lateral (
        select d.target
        from shardclock.dead_letters d
        where d.target > w.target
        order by d.target, d.tenant_id, d.died_at
        limit 1
    ) d
    where w.number < 500
),
-- Handlers are named here, too: where many endpoints end the walk, they are not on it.
found (target) as (
    select h.target from handler h union select w.target from walked w
),
kept as materialized (
    select coalesce(n.target, 'other') as target_name, f.target
    from found f
    left join named n on n.target = f.target
),
told as materialized (
    -- A handler may be named `other`, too.
    select n.target as target_name from named n union select 'other'
)
select told.target_name, counted.letters as dead_letters
from told
cross join lateral (
    select count(*) as letters
    from (
        select
        from kept k
        cross join lateral (
            select
            from shardclock.dead_letters d
            where d.target = k.target
            offset 0 -- reads target by target: without it this could be a join that reads the whole table
        ) d
        where k.target_name = told.target_name
        limit :most::bigint
    ) one
) counted
order by told.target_name
