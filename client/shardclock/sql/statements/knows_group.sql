-- Checks whether a consumer group exists.
--
-- in:    :asked text, a JSON object with the field group_name
-- out:   answer text, a JSON object of partitions (the group's number of partitions); no row: there is no such group
-- locks: nothing
-- index: consumers_pkey
select json_build_object('partitions', c.partitions)::text as answer
from shardclock.consumers c
where c.group_name = cast(:asked as text)::jsonb ->> 'group_name'
limit 1
