-- Records a holder's heartbeat, and the number of timers in the holder's memory.
--
-- in:    :holder bigint, :held integer
-- out:   one row:
--        server_time timestamptz
--        part integer and part_count integer: nulls: the holder has no slots
--        hold_reason text or null: the reason if the holder must not fire
--        workers bigint[]: for a shard, the workers of its machine; otherwise empty
--        is_own boolean: the database belongs to the holder's installation; if so, workers deliver events for operators
--          even during an operator's hold
--        no row: the holder has ended and must stop
-- locks: the holder's row in beats; never the holder's row in holders, because claims read that row
-- index: beats_pkey, newest first; holders_pkey; holders_workers
with living as materialized (
    select
        h.role, h.host, h.part, h.part_count, hold.reason as hold_reason,
        hold.reason is null or shardclock.foreign_reason(h.identity) is null as is_own
    from shardclock.holders h
    cross join lateral (select shardclock.hold_reason(h.identity) as reason offset 0) hold
    where h.holder = :holder and h.ended_at is null
),
beaten as (
    update shardclock.beats b
    -- Readers use the newest time, so a heartbeat's time must be later than the last one, even after the clock was set
    -- back.
    set seen_at = greatest(now(), b.seen_at + interval '1 microsecond'), held = :held
    where exists (select from living)
        and b.holder = :holder
        -- ">=" instead of "=", because an earlier heartbeat of the holder may have written a newer row while this one
        -- waited.
        and b.seen_at >= (
            select n.seen_at from shardclock.beats n where n.holder = :holder order by n.seen_at desc limit 1
        )
    returning b.holder
)
-- The result has no row if the holder has ended. A heartbeat that has updated no row does not mean this: an earlier
-- heartbeat may have written a newer row.
select
    clock_timestamp() as server_time, l.part, l.part_count, l.hold_reason,
    array(
        select w.holder
        from shardclock.holders w
        where w.role = 'worker' and w.ended_at is null and w.host = l.host and l.role = 'shard'
    ) as workers,
    l.is_own
from living l
cross join (select count(*) from beaten) as done
