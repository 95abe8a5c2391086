-- Reads how many shards are wanted, by which policy, how many are alive, and how many log records were drawn.
--
-- in:    nothing
-- out:   one row: shards_wanted integer, shards_min integer and shards_max integer (nulls: no policy),
--        target_per_s integer, shards_alive bigint, log_records bigint
-- locks: nothing
-- index: none, the tables are small
select
    c.shards_wanted,
    c.shards_min,
    c.shards_max,
    c.target_per_s,
    (
        select count(*) from shardclock.presence h
        where h.shard is not null and h.seen_at > now() - interval '5 s'
    ) as shards_alive,
    (select case when q.is_called then q.last_value else 0 end from shardclock.position_seq q) as log_records
from shardclock.coordination c
