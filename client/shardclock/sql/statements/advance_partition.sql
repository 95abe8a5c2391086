-- Moves the position of a partition beyond the done records, in the transaction that did the work.
--
-- in:    :asked text, a JSON object of group_name, partition, position, worked (false: there were no records), and
--        transaction (the id of the transaction that locked the partition)
-- out:   answer text, a JSON object of position; or no row: the given transaction has ended, so other members may have
--        the partition
-- locks: the partition's row
-- index: consumers_pkey
with a as materialized (
    select
        j.asked ->> 'group_name' as group_name,
        (j.asked ->> 'partition')::integer as partition,
        (j.asked ->> 'position')::bigint as position,
        (j.asked ->> 'worked')::boolean as worked,
        (j.asked ->> 'transaction')::bigint as transaction
    from (select cast(:asked as text)::jsonb as asked) j
)
update shardclock.consumers c
set position = a.position,
    worked_at = case when a.worked then clock_timestamp() else c.worked_at end,
    attempts = 0,
    not_before = null,
    leased_until = null
from a
where c.group_name = a.group_name and c.partition = a.partition and txid_current() = a.transaction
returning json_build_object('position', c.position)::text as answer
