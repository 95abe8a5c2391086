-- Sets the settings of one consumer's session; a setting that this version of Postgres lacks is skipped.
--
-- in:    :asked text, a JSON object of application_name, used if the connection has no other name, and settings: a
--        JSON object of names and values
-- out:   answer text, a JSON object with `backend`, the number of the server's process
-- locks: nothing
-- index: none
select json_build_object('backend', pg_backend_pid(), 'fixed', count(set_config(s.name, w.value, false)))::text as answer
from (select cast(:asked as text)::jsonb as asked) a
cross join lateral (
    select e.key as name, e.value from jsonb_each_text(a.asked -> 'settings') e
    union all
    select 'application_name', a.asked ->> 'application_name'
    where current_setting('application_name') = ''
) w
join pg_settings s on s.name = w.name
