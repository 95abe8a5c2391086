-- Reads the given holders, and all holders that were alive at a moment.
--
-- in:    :holders bigint[], :moment timestamptz
-- out:   holder bigint, actor_name text, host text, pid integer, alive boolean (at that moment)
-- locks: nothing
-- index: none, the table is small; beats_pkey, newest first
select
    h.holder, h.actor_name, h.host, h.pid,
    h.started_at <= :moment and s.seen_at >= :moment - interval '2 seconds' as alive
from shardclock.holders h
cross join lateral (
    select coalesce(
        h.seen_at,
        (select b.seen_at from shardclock.beats b where b.holder = h.holder order by b.seen_at desc limit 1)
    ) as seen_at
) s
where h.holder = any (:holders) or (h.started_at <= :moment and s.seen_at >= :moment - interval '2 seconds')
order by h.holder
