-- Reads the claiming shard, and the holders with free claims.
me as materialized (
    -- Each claim reads the assignment here, so that no shard uses a stale assignment, and an ended holder gets no
    -- timer.
    select
        h.part, h.part_count,
        -- The share is rounded up: otherwise a ramp lower than the number of shards would give each shard 0. A shard
        -- without slots, for example of a stand-by cluster, gets no larger share than any other shard.
        case
            when c.ramp_per_s is not null then
                ceil(
                    c.ramp_per_s / coalesce(
                        h.part_count,
                        (select count(*) from shardclock.holders s where s.role = 'shard' and s.ended_at is null)
                    )::numeric
                )::integer
        end as ramp_per_s,
        -- This setting bounds the lock waits of this statement alone: Postgres evaluates it before it locks any row.
        set_config('lock_timeout', '100ms', true) as patience
    from shardclock.holders h
    cross join shardclock.coordination c
    where h.holder = :holder::bigint
        and h.ended_at is null
        -- No timer fires in a copy, nor in another installation's database:
        -- docs/decisions/0016-a-copy-does-not-fire.md.
        and shardclock.hold_reason(h.identity) is null
),
freed as materialized (
    -- The holders with free claims. Each of the two selects reads a small index. One select with an "or" would read all
    -- holders, including the holders that ended long ago.
    select h.holder from shardclock.holders h where h.ended_at > coalesce(:now::timestamptz, now()) - :lease::interval
    union all
    -- The claiming shard itself may be suspended. In this case it doesn't take its own claims, because it works again.
    select h.holder
    from shardclock.holders h
    where h.suspended_at is not null and h.ended_at is null and h.holder <> :holder
),
