-- Ends holders, so that all their claims are free when this transaction commits.
--
-- in:    :holders bigint[], :why text
--        :term bigint or null: end holders only during this term, so that a frozen coordinator can't end holders that
--          its successor has started; null: in any term
-- out:   one row for each holder that this call ended:
--        holder bigint
--        held integer: the number of timers in its memory
--        silent_s double precision: the time from its last heartbeat until its claims were free
-- locks: the leadership row (shared, so that no new term begins before the commit), the holders' rows
-- index: leadership_pkey, newest first; holders_pkey; beats_pkey, newest first
with mandate as materialized (
    select true as yes
    from shardclock.leadership l
    where l.term = :term::bigint
    order by l.renewed_at desc
    limit 1
    for share
),
old as materialized (
    select h.holder, h.suspended_at, b.held, b.seen_at
    from shardclock.holders h
    cross join lateral (
        select b.held, b.seen_at from shardclock.beats b where b.holder = h.holder order by b.seen_at desc limit 1
    ) b
    where h.holder = any (:holders) and h.ended_at is null and (:term is null or exists (select from mandate))
    for update of h
)
update shardclock.holders h
set ended_at = now(), ended_why = :why, seen_at = old.seen_at, part = null, part_count = null
from old
where h.holder = old.holder
returning
    h.holder, old.held,
    -- A suspended holder may have sent a heartbeat after its claims became free for other holders.
    greatest(0, extract(epoch from coalesce(old.suspended_at, clock_timestamp()) - old.seen_at))::double precision
        as silent_s
