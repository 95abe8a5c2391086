-- Reads the outlines of the configuration types of jobs' functions, as the app declared them.
--
-- in:    :functions text[]
-- out:   function text, outline text (JSON: client/shardclock/outline.py); a function has no row if no app has the
--        function, or if the function accepts any configuration
-- locks: nothing
-- index: none, one scan of all jobs
select distinct on (j.function) j.function, (j.declared -> 'config_outline')::text as outline
from shardclock.jobs j
where j.function = any (:functions::text[])
    and j.withdrawn_at is null
    and j.declared -> 'config_outline' <> 'null'
order by j.function, j.declared_at desc
