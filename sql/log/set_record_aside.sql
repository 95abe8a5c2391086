-- Sets the next record of a partition aside, and moves the partition's place behind it.
--
-- in:    :group_name text, :partition integer, :position bigint (the place before the record), :record_position bigint,
--        :attempts integer
-- out:   position bigint of the record; or no row: another member has done it meanwhile
-- locks: the partition's row
-- index: consumers_pkey, command_log_in_order of each partition
with passed as (
    update shardclock.consumers c
    set position = :record_position, attempts = 0, not_before = null, leased_until = null
    where c.group_name = :group_name
        and c.partition = :partition::integer
        and c.position = :position
        and c.attempts >= :attempts
    returning c.group_name, c.error
)
insert into shardclock.records_aside (group_name, position, attempts, error, record)
select p.group_name, l.position, :attempts, p.error, to_jsonb(l)
from passed p
join shardclock.command_log l on l.position = :record_position
on conflict (group_name, position) do update
set set_aside_at = excluded.set_aside_at, attempts = excluded.attempts, error = excluded.error
returning position
