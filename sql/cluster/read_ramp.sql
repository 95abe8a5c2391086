-- Reads how fast the timers are fired that an outage left, and since when shards fire.
--
-- in:    :silent interval: a shard without a sign of life for so long doesn't count
-- out:   per_s integer or null (no limit), served_since timestamptz or null (no shard with slots runs): when the oldest of
--        the shards that run was started
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
