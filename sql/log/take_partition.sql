-- Locks the free partition of a group that is furthest behind, to work on it in this transaction.
--
-- If a lease or a wait ends later than is possible, Postgres's clock was ahead when it was written: it is ignored.
--
-- in:    :group_name text
-- out:   partition integer, partitions integer, position bigint, attempts integer, horizon bigint (no new record can
--        appear up to there), transaction bigint (this transaction, which holds the lock), started_at timestamptz (of
--        the server); no row if no partition is free, or there is nothing to read
-- locks: the partition's row, until the transaction ends; leaves out rows that others have locked
-- index: consumers_pkey
with log as materialized (
    select shardclock.log_horizon() as horizon
)
select
    c.partition::integer as partition, c.partitions::integer as partitions, c.position, c.attempts, log.horizon,
    txid_current() as transaction, pg_postmaster_start_time() as started_at
from log
join shardclock.consumers c on c.position < log.horizon
where c.group_name = :group_name
    and coalesce(
        c.leased_until not between clock_timestamp() and clock_timestamp() + c.leased_for + interval '1 minute', true
    )
    and coalesce(c.not_before not between clock_timestamp() and clock_timestamp() + interval '1 minute', true)
order by c.position
limit 1
for update of c skip locked
