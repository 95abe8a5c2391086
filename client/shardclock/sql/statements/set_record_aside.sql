-- Stores the next record of a partition in records_aside, and moves the partition's position beyond the record.
--
-- in:    :asked text, a JSON object of group_name, partition, position (before the record), record_position and
--        attempts
-- out:   answer text, a JSON object of position (the record's position); or no row: another member has done the record
--        meanwhile
-- locks: the partition's row
-- index: consumers_pkey, command_log_in_order of each partition
with a as materialized (
    select
        j.asked ->> 'group_name' as group_name,
        (j.asked ->> 'partition')::integer as partition,
        (j.asked ->> 'position')::bigint as position,
        (j.asked ->> 'record_position')::bigint as record_position,
        (j.asked ->> 'attempts')::integer as attempts
    from (select cast(:asked as text)::jsonb as asked) j
),
passed as (
    update shardclock.consumers c
    set position = a.record_position, attempts = 0, not_before = null, leased_until = null
    from a
    where c.group_name = a.group_name
        and c.partition = a.partition
        and c.position = a.position
        and c.attempts >= a.attempts
    returning c.group_name, c.error
)
insert into shardclock.records_aside (group_name, position, attempts, error, record)
select p.group_name, l.position, a.attempts, p.error, to_jsonb(l)
from passed p
cross join a
join shardclock.command_log l on l.position = a.record_position
on conflict (group_name, position) do update
set set_aside_at = excluded.set_aside_at, attempts = excluded.attempts, error = excluded.error
returning json_build_object('position', position)::text as answer
