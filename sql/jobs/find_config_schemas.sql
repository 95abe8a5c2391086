-- Reads what configurations the functions of jobs take, as the app declares it.
--
-- in:    :functions text[]
-- out:   function text, config_schema text (a JSON Schema), config text or null (what the app itself declares: it fits);
--        nothing for a function that no app has now, or that takes any configuration
-- locks: nothing
-- index: none: all jobs, once
select distinct on (j.function)
    j.function, (j.declared -> 'config_schema')::text as config_schema, nullif(j.declared -> 'config', 'null')::text as config
from shardclock.jobs j
where j.function = any (:functions::text[])
    and j.withdrawn_at is null
    and j.declared -> 'config_schema' <> 'null'
order by j.function, j.name
