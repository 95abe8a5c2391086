-- Reads the end of the readable part of the command log.
--
-- in:    :asked text, an empty JSON object
-- out:   answer text, a JSON object of position: each record that becomes readable later has a higher position
-- locks: nothing
-- index: none
select json_build_object('position', shardclock.log_horizon())::text as answer
from (select cast(:asked as text)::jsonb as asked) a
