-- Reads the claiming shard, and the holders with free claims.
me as materialized (
    -- Read the assignment of slots in each claim, so that a shard never uses an old assignment, and an ended holder
    -- gets no timers.
    select
        h.part, h.part_count,
        -- The shard's part of the ramp. Shards without slots also count, for example the shards of a stand-by cluster.
        c.ramp_per_s / coalesce(
            h.part_count, (select count(*) from shardclock.holders s where s.role = 'shard' and s.ended_at is null)
        )::double precision as ramp_per_s,
        -- Sets the lock timeout of this statement: Postgres evaluates this expression before the statement locks a row.
        set_config('lock_timeout', '100ms', true) as patience
    from shardclock.holders h
    cross join shardclock.coordination c
    where h.holder = :holder::bigint
        and h.ended_at is null
        -- On a copy, and on another installation's database, there is no row, so the shard fires nothing
        -- (docs/decisions/0016-a-copy-does-not-fire.md).
        and shardclock.hold_reason(h.identity) is null
),
freed as materialized (
    -- The holders with free claims. Each of the two selects can use a small index. A single select with "or" would read
    -- all holders, including the ended holders.
    select h.holder from shardclock.holders h where h.ended_at > coalesce(:now::timestamptz, now()) - :lease::interval
    union all
    -- The claims of suspended holders are free, except the claims of this shard: it runs, so its mark is out of date.
    select h.holder
    from shardclock.holders h
    where h.suspended_at is not null and h.ended_at is null and h.holder <> :holder
),
