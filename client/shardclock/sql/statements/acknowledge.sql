-- Moves the position of a leased partition beyond the done records, and extends or ends the lease.
--
-- in:    :asked text, a JSON object of group_name, partition, lease, position, worked (true: sets worked_at),
--        and keep_s, the new time of the lease from now; without keep_s the lease ends now
-- out:   answer text, a JSON object of position (the partition's new position); or no row: the lease has
--        expired, and another member has the partition
-- locks: the partition's row
-- index: consumers_pkey
with a as materialized (
    select
        j.asked ->> 'group_name' as group_name,
        (j.asked ->> 'partition')::integer as partition,
        (j.asked ->> 'lease')::bigint as lease,
        (j.asked ->> 'position')::bigint as position,
        (j.asked ->> 'worked')::boolean as worked,
        make_interval(secs => (j.asked ->> 'keep_s')::double precision) as keep_for
    from (select cast(:asked as text)::jsonb as asked) j
)
update shardclock.consumers c
set attempts = case when a.position > c.position then 0 else c.attempts end,
    not_before = case when a.position > c.position then null else c.not_before end,
    position = greatest(c.position, a.position),
    worked_at = case when a.worked then clock_timestamp() else c.worked_at end,
    leased_until = clock_timestamp() + a.keep_for,
    leased_for = coalesce(a.keep_for, c.leased_for)
from a
where c.group_name = a.group_name and c.partition = a.partition and c.lease = a.lease
    -- After a lost answer, the client may repeat the acknowledgement that ended the lease.
    and (c.leased_until is not null or (a.keep_for is null and c.position >= a.position))
returning json_build_object('position', c.position)::text as answer
