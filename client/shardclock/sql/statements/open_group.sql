-- Registers a consumer group at the beginning of the log, if it is new.
--
-- in:    :asked text, a JSON object of group_name, and partitions: how many a new group gets; without it, one
-- out:   answer text, a JSON object of partitions (how many the group has)
-- locks: the new rows
-- index: consumers_pkey
select json_build_object(
    'partitions', shardclock.open_group(a.asked ->> 'group_name', (a.asked ->> 'partitions')::integer)
)::text as answer
from (select cast(:asked as text)::jsonb as asked) a
