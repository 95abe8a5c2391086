-- Counts for each target the dead letters that are kept.
--
-- in:    :named integer: so many handlers are told by name, those that an app still has first; all other targets are
--        told as `other`,
--        :most bigint: of one name no more are counted
-- out:   target_name text, dead_letters bigint
-- locks: nothing
-- index: dead_letters_by_target: one probe for each target, 500 of them at most; then of each name at most :most rows
with recursive named as materialized (
    select h.target
    from shardclock.handlers h
    order by h.withdrawn_at is not null, h.target collate "C" -- as workers order them
    limit :named::integer
),
found (target, number) as (
    (
        select d.target, 1
        from shardclock.dead_letters d
        order by d.target, d.tenant_id, d.died_at
        limit 1
    )
    union all
    select d.target, f.number + 1
    from found f
    cross join lateral (
        select d.target
        from shardclock.dead_letters d
        where d.target > f.target
        order by d.target, d.tenant_id, d.died_at
        limit 1
    ) d
    where f.number < 500
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
