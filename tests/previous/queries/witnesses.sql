-- Reads who certain holders are, and who else gave a sign of life at a moment.
--
-- in:    $1 holders bigint[], $2 moment timestamptz
-- out:   holder bigint, actor_name text, host text, pid integer, alive boolean (then)
-- locks: nothing
-- index: none, the table is small
select h.holder, h.actor_name, h.host, h.pid, h.started_at <= $2 and h.seen_at >= $2 - interval '2 seconds' as alive
from shardclock.holders h
where h.holder = any ($1) or (h.started_at <= $2 and h.seen_at >= $2 - interval '2 seconds')
order by h.holder
