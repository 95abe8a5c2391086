-- Records a heartbeat: the holder is alive, and how many timers it has in memory.
--
-- in:    :holder bigint, :held integer
-- out:   one row: server_time timestamptz, part integer and part_count integer (nulls: it has none), hold_reason text
--        (why it may not fire) or null; or no row: the holder was ended and must stop
-- locks: the holder's row in beats; never its row in holders, which claims read
-- index: beats_pkey, newest first; holders_pkey
with living as materialized (
    select h.part, h.part_count, shardclock.hold_reason(h.identity) as hold_reason
    from shardclock.holders h
    where h.holder = :holder and h.ended_at is null
),
beaten as (
    update shardclock.beats b
    -- Later than the last beat even if the clock was set back, because only the newest one counts.
    set seen_at = greatest(now(), b.seen_at + interval '1 microsecond'), held = :held
    where exists (select from living)
        and b.holder = :holder
        -- Not only equal: an earlier beat, whose answer was lost, may have written a newer row while this one waited.
        and b.seen_at >= (
            select n.seen_at from shardclock.beats n where n.holder = :holder order by n.seen_at desc limit 1
        )
    returning b.holder
)
-- The holder's own row says whether it lives. A beat that wrote nothing does not mean that the holder was ended.
select clock_timestamp() as server_time, l.part, l.part_count, l.hold_reason
from living l
cross join (select count(*) from beaten) as done
