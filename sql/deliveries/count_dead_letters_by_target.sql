-- Counts a tenant's dead letters by target.
--
-- in:    :tenant_id text, :targets_max integer, :letters_max integer
-- out:   target text
--        dead_letters bigint: counted up to :letters_max
--        since timestamptz and last_at timestamptz: of the first and the last death
--        in the order of targets, at most :targets_max
-- locks: nothing
-- index: dead_letters_by_tenant, one probe for each target, and at most :letters_max rows of each target;
--        dead_letters_by_target, two probes for each target
with recursive found (target, number) as (
    (
        select d.target, 1
        from shardclock.dead_letters d
        where d.tenant_id = :tenant_id and (d.target > '') is true
        order by d.target
        limit 1
    )
    union all
    select n.target, f.number + 1
    from found f
    cross join lateral (
        select d.target
        from shardclock.dead_letters d
        where d.tenant_id = :tenant_id and d.target > f.target and (d.target > '') is true
        order by d.target
        limit 1
    ) n
    where f.number < :targets_max::integer
)
select
    f.target,
    (
        select count(*)
        from (
            select
            from shardclock.dead_letters d
            where d.tenant_id = :tenant_id and d.target = f.target and (d.target > '') is true
            limit :letters_max::integer
        ) d
    ) as dead_letters,
    -- No min() and max(): if the plan was made while the table was empty, they could read the index of all dead
    -- letters.
    (
        select d.died_at
        from shardclock.dead_letters d
        where (d.target, d.tenant_id) >= (f.target, :tenant_id)
        order by d.target, d.tenant_id, d.died_at
        limit 1
    ) as since,
    (
        select d.died_at
        from shardclock.dead_letters d
        where (d.target, d.tenant_id) <= (f.target, :tenant_id)
        order by d.target desc, d.tenant_id desc, d.died_at desc
        limit 1
    ) as last_at
from found f
order by f.target
