-- Reads the start time of the server.
--
-- in:    :asked text, an empty JSON object
-- out:   answer text, a JSON object of started_at
-- locks: nothing
-- index: none
select json_build_object('started_at', extract(epoch from pg_postmaster_start_time()))::text as answer
from (select cast(:asked as text)::jsonb as asked) a
