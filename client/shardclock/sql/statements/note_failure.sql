-- Records a failure of the work on a partition's next records; does nothing if another member has done this work.
--
-- in:    :asked text, a JSON object of group_name, partition, position (before the first of these records), alone
--        (true: the work was on one record), error, wait_s (the time before the next attempt), and lease (missing if
--        the member worked in a transaction; then a later lease of another member stays)
-- out:   answer text, a JSON object of attempts (of work on the next record alone); or no row: another member has the
--        records, or has done the work
-- locks: the partition's row
-- index: consumers_pkey
with a as materialized (
    select
        j.asked ->> 'group_name' as group_name,
        (j.asked ->> 'partition')::integer as partition,
        (j.asked ->> 'position')::bigint as position,
        (j.asked ->> 'lease')::bigint as lease,
        (j.asked ->> 'alone')::boolean as alone,
        j.asked ->> 'error' as error,
        make_interval(secs => (j.asked ->> 'wait_s')::double precision) as wait_for
    from (select cast(:asked as text)::jsonb as asked) j
)
update shardclock.consumers c
set failures = c.failures + 1,
    attempts = c.attempts + a.alone::integer,
    error = a.error,
    failed_at = clock_timestamp(),
    not_before = clock_timestamp() + a.wait_for,
    leased_until = case when a.lease is null and c.leased_until > clock_timestamp() then c.leased_until end
from a
where c.group_name = a.group_name
    and c.partition = a.partition
    and c.position = a.position
    and (a.lease is null or c.lease = a.lease)
returning json_build_object('attempts', c.attempts)::text as answer
