-- Registers a consumer group at the beginning of the log, if it is new.
--
-- in:    :asked text, a JSON object of group_name, and partitions: the number for a new group; 1 if it is missing
-- out:   answer text, a JSON object of partitions (the number of partitions)
-- locks: the new rows
-- index: consumers_pkey
select json_build_object(
    'partitions', shardclock.open_group(a.asked ->> 'group_name', (a.asked ->> 'partitions')::integer)
)::text as answer
from (select cast(:asked as text)::jsonb as asked) a
