-- Locks a group's free partition with the oldest unread record, until the transaction ends.
--
-- A lease or a wait with an impossibly late end is ignored, because Postgres's clock was ahead when the end was
-- written.
--
-- in:    :asked text, a JSON object of group_name
-- out:   answer text, a JSON object of partition, partitions, position, attempts, horizon (no new record can appear up to
--        it), transaction (the id of this transaction, which holds the lock) and started_at (the server's start time);
--        no row: no partition is free, or no record can be read
-- locks: the partition's row, until the transaction ends; skips locked rows
-- index: consumers_pkey
with log as materialized (
    select shardclock.log_horizon() as horizon
)
select json_build_object(
    'partition', c.partition,
    'partitions', c.partitions,
    'position', c.position,
    'attempts', c.attempts,
    'horizon', log.horizon,
    'transaction', txid_current(),
    'started_at', extract(epoch from pg_postmaster_start_time())
)::text as answer
from log
join shardclock.consumers c on c.position < log.horizon
where c.group_name = (select cast(:asked as text)::jsonb ->> 'group_name')
    and coalesce(
        c.leased_until not between clock_timestamp() and clock_timestamp() + c.leased_for + interval '1 minute', true
    )
    and coalesce(c.not_before not between clock_timestamp() and clock_timestamp() + interval '1 minute', true)
order by c.position
limit 1
for update of c skip locked
