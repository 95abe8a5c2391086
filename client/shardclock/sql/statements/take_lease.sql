-- Leases a group's free partition with the oldest unread record, for work without a transaction.
--
-- After an expired lease, the next lease is for one record. An expired lease counts as a failed attempt only if it was
-- for one record, because among several records the faulty record is unknown.
--
-- A lease or a wait with an impossibly late end is ignored, because Postgres's clock was ahead when the end was
-- written.
--
-- in:    :asked text, a JSON object of group_name, member, lease_s and records_max
-- out:   answer text, a JSON object of partition, partitions, position, attempts, lease, leased_records (the largest number
--        of records in the lease) and horizon (no new record can appear up to it); no row: no partition is free, or no
--        record can be read
-- locks: the partition's row; skips locked rows
-- index: consumers_pkey
with a as materialized (
    select
        j.asked ->> 'group_name' as group_name,
        j.asked ->> 'member' as member,
        make_interval(secs => (j.asked ->> 'lease_s')::double precision) as lease_for,
        (j.asked ->> 'records_max')::integer as records_max
    from (select cast(:asked as text)::jsonb as asked) j
),
log as materialized (
    select shardclock.log_horizon() as horizon
),
free as materialized (
    select
        c.partition, log.horizon, c.leased_until is not null as ran_out,
        c.attempts + (c.leased_until is not null and c.leased_records = 1)::integer as attempts
    from log
    join shardclock.consumers c on c.position < log.horizon
    where c.group_name = (select a.group_name from a)
        and coalesce(
            c.leased_until not between clock_timestamp() and clock_timestamp() + c.leased_for + interval '1 minute',
            true
        )
        and coalesce(c.not_before not between clock_timestamp() and clock_timestamp() + interval '1 minute', true)
    order by c.position
    limit 1
    for update of c skip locked
)
update shardclock.consumers c
set lease = floor(random() * 9007199254740992)::bigint,
    leased_by = a.member,
    leased_until = clock_timestamp() + a.lease_for,
    leased_for = a.lease_for,
    leased_records = case when free.ran_out or free.attempts > 0 then 1 else a.records_max end,
    attempts = free.attempts,
    failures = c.failures + free.ran_out::integer,
    error = case when free.ran_out then 'the lease of ' || c.leased_by || ' ran out' else c.error end,
    failed_at = case when free.ran_out then clock_timestamp() else c.failed_at end
from free
cross join a
where c.group_name = a.group_name and c.partition = free.partition
returning json_build_object(
    'partition', c.partition,
    'partitions', c.partitions,
    'position', c.position,
    'attempts', c.attempts,
    'lease', c.lease,
    'leased_records', c.leased_records,
    'horizon', free.horizon
)::text as answer
