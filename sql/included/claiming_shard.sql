-- Reads the claiming shard, and the holders with free claims.
me as materialized (
    -- Read the assignment in each claim, so that no shard uses an old assignment, and an ended holder gets no timer.
    select
        h.part, h.part_count,
        -- Round up each shard's share of the ramp: otherwise a ramp below the number of shards would be 0 for each
        -- shard. Also count shards without slots, as of a stand-by cluster.
        case
            when c.ramp_per_s is not null then
                ceil(
                    c.ramp_per_s / coalesce(
                        h.part_count,
                        (select count(*) from shardclock.holders s where s.role = 'shard' and s.ended_at is null)
                    )::numeric
                )::integer
        end as ramp_per_s,
        -- Limits the lock waits of this statement: Postgres evaluates this expression before it locks any row.
        set_config('lock_timeout', '100ms', true) as patience
    from shardclock.holders h
    cross join shardclock.coordination c
    where h.holder = :holder::bigint
        and h.ended_at is null
        -- Without a row, a shard fires nothing: in a copy or in another installation's database
        -- (docs/decisions/0016-a-copy-does-not-fire.md).
        and shardclock.hold_reason(h.identity) is null
),
freed as materialized (
    -- The holders with free claims. Two selects, which read small indexes: one select with an "or" would read all
    -- holders, including old ones.
    select h.holder from shardclock.holders h where h.ended_at > coalesce(:now::timestamptz, now()) - :lease::interval
    union all
    -- Exclude the claiming shard, which may be suspended but works again.
    select h.holder
    from shardclock.holders h
    where h.suspended_at is not null and h.ended_at is null and h.holder <> :holder
),
