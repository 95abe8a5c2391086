-- The holder's part of the slots.
me as materialized (
    select h.part, h.part_count
    from shardclock.holders h
    where h.holder = :holder::bigint
        and h.ended_at is null
        and h.part is not null
        -- A copy of the database makes no run and advances no instance: docs/decisions/0016-a-copy-does-not-fire.md.
        and shardclock.hold_reason(h.identity) is null
),
