-- Ends holders: their claims are free from the moment this commits, however many there are.
--
-- in:    $1 holders bigint[], $2 why text
-- out:   holder bigint, held integer, silent_s double precision (from its last sign of life until its claims were
--        free), of those that this call ended
-- locks: the holders' rows
-- index: holders_pkey
with old as materialized (
    select h.holder, h.held, h.seen_at, h.suspended_at
    from shardclock.holders h
    where h.holder = any ($1) and h.ended_at is null
    for update
)
update shardclock.holders h
set ended_at = now(), ended_why = $2, held = 0, shard = null, shard_count = null
from old
where h.holder = old.holder
returning
    h.holder, old.held,
    -- One that was suspended may have been heard since.
    greatest(0, extract(epoch from coalesce(old.suspended_at, clock_timestamp()) - old.seen_at))::double precision
        as silent_s
