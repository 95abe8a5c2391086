-- Reads the rate at which timers fire after an outage, and the start of the oldest running shard.
--
-- in:    :silent interval: a shard without a heartbeat for this long doesn't count
-- out:   per_s integer or null (no limit), served_since timestamptz or null: the start of the oldest running shard;
--        null: no shard with slots runs
-- locks: nothing
-- index: none, the tables are small; beats_pkey, newest first
select
    c.ramp_per_s as per_s,
    (
        select min(p.started_at)
        from shardclock.presence p
        where p.role = 'shard' and p.part is not null and p.seen_at > clock_timestamp() - :silent::interval
    ) as served_since
from shardclock.coordination c
