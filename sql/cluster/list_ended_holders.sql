-- Lists the holders that have ended, the last one first.
--
-- in:    :limit bigint
-- out:   holder bigint, role text, host text, pid integer, started_at timestamptz, seen_at timestamptz (the last
--        heartbeat), ended_at timestamptz, ended_why text
-- locks: nothing
-- index: holders_ended, backwards
select h.holder, h.role, h.host, h.pid, h.started_at, h.seen_at, h.ended_at, h.ended_why
from shardclock.holders h
where h.ended_at is not null
order by h.ended_at desc
limit :limit
