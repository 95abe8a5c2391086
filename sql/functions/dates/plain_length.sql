-- Returns an ISO 8601 duration in capitals and without plus signs, as timers.duration does.
--
-- in:    given text
-- out:   text
-- locks: nothing
-- index: none
create or replace function shardclock.plain_length(given text)
returns text
language sql
immutable
begin atomic
    select regexp_replace(
        translate(given, 'pymwdths', 'PYMWDTHS'), '^\+(?=P)|(?<=[PYMWDTH])\+(?=[0-9])', '', 'g'
    );
end;
