-- Reads what configurations the functions of jobs take, as the app declares it.
--
-- in:    :functions text[]
-- out:   function text, outline text (JSON: client/shardclock/outline.py); nothing for a function that no app has now, or
--        that takes any configuration
-- locks: nothing
-- index: none: all jobs, once
select distinct on (j.function) j.function, (j.declared -> 'config_outline')::text as outline
from shardclock.jobs j
where j.function = any (:functions::text[])
    and j.withdrawn_at is null
    and j.declared -> 'config_outline' <> 'null'
order by j.function, j.declared_at desc
