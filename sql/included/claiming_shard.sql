-- The claiming shard, and the holders with free claims.
me as materialized (
    -- Every claim reads the assignment here: so no shard acts on a stale one, and an ended holder takes nothing.
    select
        h.part, h.part_count,
        -- Rounded up: else a ramp lower than the number of shards would be 0 for each of them. One without slots, as while
        -- its cluster stands by, takes no more than any other.
        case
            when c.ramp_per_s is not null then
                ceil(
                    c.ramp_per_s / coalesce(
                        h.part_count,
                        (select count(*) from shardclock.holders s where s.role = 'shard' and s.ended_at is null)
                    )::numeric
                )::integer
        end as ramp_per_s,
        -- Bounds the lock waits of this statement alone: Postgres evaluates this before it locks any row.
        set_config('lock_timeout', '100ms', true) as patience
    from shardclock.holders h
    cross join shardclock.coordination c
    where h.holder = :holder::bigint
        and h.ended_at is null
        -- Nothing fires in a copy, nor in another installation's database: docs/decisions/0016-a-copy-does-not-fire.md.
        and shardclock.hold_reason(h.identity) is null
),
freed as materialized (
    -- The holders with free claims. Two selects, each of which reads a small index: with an "or", Postgres would
    -- read every holder that there ever was.
    select h.holder from shardclock.holders h where h.ended_at > coalesce(:now::timestamptz, now()) - :lease::interval
    union all
    -- The shard may itself be suspended, and work again: it doesn't take its own claims.
    select h.holder
    from shardclock.holders h
    where h.suspended_at is not null and h.ended_at is null and h.holder <> :holder
),
