-- Counts the dead letters of each target.
--
-- in:    :named integer: the limit of handlers with a separate row; handlers that an app declares come first; the row
--          `other` counts all other targets
--        :most bigint: the count of a row stops at this number
-- out:   target_name text, dead_letters bigint
-- locks: nothing
-- index: dead_letters_by_target: one probe for each handler, at most 500; one probe for each target, at most 500, to
--        find the endpoints; then at most :most rows for each name
with recursive handler as materialized (
    select h.target, row_number() over (order by h.withdrawn_at is not null, h.target collate "C") as number
    from shardclock.handlers h
    order by number -- in the workers' order
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
-- List the handlers separately, because with many endpoints the search of targets would stop before it reaches the
-- handlers.
found (target) as (
    select h.target from handler h union select w.target from walked w
),
kept as materialized (
    select coalesce(n.target, 'other') as target_name, f.target
    from found f
    left join named n on n.target = f.target
),
label as materialized (
    -- Use `union`, because a handler may have the name `other`.
    select n.target as target_name from named n union select 'other'
)
select label.target_name, counted.letters as dead_letters
from label
cross join lateral (
    select count(*) as letters
    from (
        select
        from kept k
        cross join lateral (
            select
            from shardclock.dead_letters d
            where d.target = k.target
            offset 0 -- reads target by target; without it, a join might read the whole table
        ) d
        where k.target_name = label.target_name
        limit :most::bigint
    ) one
) counted
order by label.target_name
